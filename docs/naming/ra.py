#!/usr/bin/env python3
"""ra.py ROOT PLAN... : asks rust-analyzer for the edits of every row of the plans, against the unchanged tree ROOT, and writes
them to OUT (edits.json): {path: [[line0,col0,line1,col1,new_text,row]...]}, renames of files, and failures."""
import json, os, re, subprocess, sys, threading, queue, time, collections
root=os.path.abspath(sys.argv[1]); out=sys.argv[2]; plans=sys.argv[3:]
class LSP:
    def __init__(s):
        s.p=subprocess.Popen(['rust-analyzer'],stdin=subprocess.PIPE,stdout=subprocess.PIPE,stderr=open('target/naming/ra.err','w'))
        s.id=0; s.res={}; s.cv=threading.Condition(); s.quiet=False
        threading.Thread(target=s.read,daemon=True).start()
    def read(s):
        f=s.p.stdout
        while True:
            n=None
            while True:
                l=f.readline()
                if not l: return
                l=l.strip()
                if not l: break
                if l.lower().startswith(b'content-length:'): n=int(l.split(b':')[1])
            m=json.loads(f.read(n))
            if 'method' in m and 'id' in m:
                r=None
                if m['method']=='workspace/configuration': r=[CFG for _ in m['params']['items']]
                s.send({'jsonrpc':'2.0','id':m['id'],'result':r})
            elif 'method' in m:
                if m['method']=='experimental/serverStatus':
                    with s.cv: s.quiet=m['params'].get('quiescent',False); s.cv.notify_all()
                    print('status',m['params'],flush=True)
            else:
                with s.cv: s.res[m['id']]=m; s.cv.notify_all()
    def send(s,m):
        b=json.dumps(m).encode(); s.p.stdin.write(b'Content-Length: %d\r\n\r\n'%len(b)+b); s.p.stdin.flush()
    def start(s,method,params):
        s.id+=1; s.send({'jsonrpc':'2.0','id':s.id,'method':method,'params':params}); return s.id
    def wait(s,i,timeout=600):
        with s.cv:
            if not s.cv.wait_for(lambda:i in s.res,timeout): raise TimeoutError(i)
            return s.res.pop(i)
    def call(s,m,p,timeout=600): return s.wait(s.start(m,p),timeout)
CFG={'checkOnSave':False,'cargo':{'allTargets':True,'features':'all','buildScripts':{'enable':True}},'procMacro':{'enable':True},'cachePriming':{'enable':True,'numThreads':2},'files':{'watcher':'client'},'lru':{'capacity':512}}
uri=lambda p:'file://'+os.path.join(root,p)
l=LSP()
l.call('initialize',{'processId':os.getpid(),'rootUri':'file://'+root,'workspaceFolders':[{'uri':'file://'+root,'name':'x'}],
 'capabilities':{'workspace':{'configuration':True,'workspaceEdit':{'documentChanges':True,'resourceOperations':['rename','create','delete']}},
   'textDocument':{'documentSymbol':{'hierarchicalDocumentSymbolSupport':True},'rename':{'prepareSupport':True}},
   'general':{'positionEncodings':['utf-32','utf-16']},
   'experimental':{'serverStatusNotification':True}},'initializationOptions':CFG})
l.send({'jsonrpc':'2.0','method':'initialized','params':{}})
t=time.time()
with l.cv:
    assert l.cv.wait_for(lambda:l.quiet,1500),'not quiescent'
print('quiescent after %.0f s'%(time.time()-t),flush=True)
symcache={}
def symbols(f):
    if f not in symcache:
        r=l.call('textDocument/documentSymbol',{'textDocument':{'uri':uri(f)}})
        flat=[]
        def go(ns,chain):
            for n in ns:
                flat.append((n,chain)); go(n.get('children') or [],chain+[n])
        go(r.get('result') or [],[])
        symcache[f]=flat
    return symcache[f]
textcache={}
def text(f):
    if f not in textcache: textcache[f]=open(os.path.join(root,f),encoding='utf-8').read().split('\n')
    return textcache[f]
def implname(n):
    m=n['name']
    if not m.startswith('impl'): return m
    m=re.sub(r'^impl\s*(<.*?>)?\s*','',m)
    if ' for ' in m: m=m.split(' for ',1)[1]
    m=re.sub(r'<.*','',m).replace('&','').strip()
    m=re.sub(r'^(mut|dyn)\s+','',m)
    m=re.sub(r"^'\w+\s+",'',m)
    return m.split('::')[-1].strip()
TYPE={23,10,11,26,5}
def find(kind,f,old):
    out=[]
    if kind=='mod':
        d=os.path.dirname(f); base=os.path.basename(f)
        if base in('mod.rs',): d2=os.path.dirname(d); cands=[os.path.join(d2,x) for x in('lib.rs','main.rs','mod.rs')]+[d2+'.rs']
        else: cands=[os.path.join(d,x) for x in('lib.rs','main.rs','mod.rs')]+[d+'.rs']
        cands+=[f]
        if not os.path.exists(os.path.join(root,f)): cands=[f]
        for c in cands:
            if os.path.exists(os.path.join(root,c)):
                for n,ch in symbols(c):
                    if n['kind']==2 and n['name']==old: out.append((c,n['selectionRange']['start']))
                if out: break
        return out
    parts=re.split(r'::|\.',old)
    name=parts[-1].split('/')[-1]
    for n,ch in symbols(f):
        k=n['kind']; par=ch[-1] if ch else None
        ok=False
        if kind=='type': ok=k in TYPE and n['name']==old
        elif kind=='variant': ok=k==22 and n['name']==name and par is not None and par['name']==parts[-2]
        elif kind=='field': ok=k==8 and n['name']==name and par is not None and (implname(par)==parts[-2])
        elif kind=='method': ok=k in(12,6) and n['name']==name and par is not None and implname(par)==parts[-2]
        elif kind in('fn','test'): ok=k in(12,6) and n['name']==name and (par is None or par['kind']==2 or par['kind'] in (12,6))
        elif kind=='const': ok=k in(14,13) and n['name']==name and (len(parts)<2 or (par is not None and implname(par)==parts[-2]))
        elif kind=='local':
            fn=old.split('/')[0].split('::'); 
            if k in(12,6) and n['name']==fn[-1] and (len(fn)<2 or (par is not None and implname(par)==fn[-2])):
                a=n['range']['start']['line']; b=n['range']['end']['line']
                for i in range(a,b+1):
                    line=text(f)[i]; code=line.split('//')[0] if '"' not in line else line
                    hit=None
                    for m in re.finditer(r'(?<![\w.])'+re.escape(name)+r'\b(?!\s*[(!]|::)',code):
                        if code.lstrip().startswith('//'): continue
                        hit=m; break
                    if hit: out.append((f,{'line':i,'character':hit.start()})); break
            continue
        if ok: out.append((f,n['selectionRange']['start']))
    return out
rows=[]
for p in plans:
    for line in open(p,encoding='utf-8'):
        line=line.rstrip('\n')
        if not line.strip() or line.startswith('#'): continue
        c=line.split('\t')
        if len(c)<4: print('BAD ROW',p,line); continue
        rows.append((os.path.basename(p),*[x.strip() for x in c[:4]]))
edits=collections.defaultdict(list); moves=[]; fails=[]
pending=collections.deque()
def collect(row,i):
    r=l.wait(i)
    if r.get('error') or not r.get('result'):
        fails.append(['ra',r.get('error',{}).get('message','empty'),*row]); return
    res=r['result']; n=0
    for dc in res.get('documentChanges') or []:
        if dc.get('kind')=='rename': moves.append([os.path.relpath(dc['oldUri'][7:],root),os.path.relpath(dc['newUri'][7:],root),'/'.join(row)]); continue
        p=os.path.relpath(dc['textDocument']['uri'][7:],root)
        for e in dc['edits']:
            s,t=e['range']['start'],e['range']['end']; edits[p].append([s['line'],s['character'],t['line'],t['character'],e['newText'],'/'.join(row)]); n+=1
    for u,es in (res.get('changes') or {}).items():
        p=os.path.relpath(u[7:],root)
        for e in es:
            s,t=e['range']['start'],e['range']['end']; edits[p].append([s['line'],s['character'],t['line'],t['character'],e['newText'],'/'.join(row)]); n+=1
t=time.time()
for k,row in enumerate(rows):
    plan,kind,f,old,new=row
    try: pos=find(kind,f,old)
    except Exception as e: fails.append(['find',repr(e),*row]); continue
    if not pos: fails.append(['notfound','',*row]); continue
    for pf,pp in pos:
        pending.append((row,l.start('textDocument/rename',{'textDocument':{'uri':uri(pf)},'position':pp,'newName':new})))
    while len(pending)>4: collect(*pending.popleft())
    if k%100==0: print(k,len(rows),'%.0f s'%(time.time()-t),'fails',len(fails),flush=True)
while pending: collect(*pending.popleft())
json.dump({'edits':edits,'moves':moves,'fails':fails},open(out,'w'),indent=0)
print('done',len(rows),'rows, fails',len(fails),'%.0f s'%(time.time()-t)); 
for f in fails[:400]: print('FAIL','\t'.join(map(str,f)))
l.p.kill()
