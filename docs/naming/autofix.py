import json,subprocess,sys,re,os,collections,glob
tree=sys.argv[1]; os.chdir(tree)
moves=json.load(open('target/naming/moves.json'))
crate=lambda p:'/'.join(p.split('/')[:2]) if p.startswith(('server/','tests/')) else p.split('/')[0]
KIND={'E0425':('fn','const','local','field','type'),'E0412':('type',),'E0433':('type','mod','fn'),'E0432':('type','mod','fn','const','variant'),'E0599':('method','variant','field'),'E0609':('field',),'E0560':('field',),'E0026':('field',),'E0574':('type',),'E0531':('variant','const'),'E0423':('fn','local'),'E0405':('type',),'E0407':('method',),'E0027':('field',),'E0559':('field',),'E0424':(),'E0616':('field',),'E0423':('fn',),'E0583':('mod',),'E0434':('local',)}
rows=[]
for p in sys.argv[3:] or glob.glob('docs/naming/plan-*.tsv'):
    for l in open(p):
        c=[x.strip() for x in l.rstrip('\n').split('\t')]
        if len(c)<4 or l[0]=='#': continue
        rows.append((c[0],moves.get(c[1],c[1]),re.split(r'::|\.|/',c[2])[-1],c[3]))
byold=collections.defaultdict(list)
for r in rows: byold[r[2]].append(r)
env=dict(os.environ,CARGO_TARGET_DIR=os.environ.get('T','target/naming/build'))
total=0
for rnd in range(int(sys.argv[2]) if len(sys.argv)>2 else 4):
    out=subprocess.run(['cargo','check','--workspace','--all-targets','--keep-going','--message-format','json'],capture_output=True,text=True,env=env).stdout
    fixes=collections.defaultdict(dict); left=[]; seen=set()
    for l in out.split('\n'):
        if not l.startswith('{'): continue
        m=json.loads(l)
        if m.get('reason')!='compiler-message': continue
        m=m['message']
        if m['level']!='error' or not m['spans']: continue
        code=(m.get('code') or {}).get('code')
        sp=[s for s in m['spans'] if s['is_primary']][0]
        # inside a macro: the place in the macro's call
        while sp.get('expansion') and sp['expansion'] and not os.path.exists(sp['file_name']): sp=sp['expansion']['span']
        f=sp['file_name']; key=(f,sp['byte_start'],code)
        if key in seen: continue
        seen.add(key)
        if not os.path.exists(f): left.append((f,0,code,m['message'])); continue
        b=open(f,'rb').read(); w=b[sp['byte_start']:sp['byte_end']].decode()
        if not re.fullmatch(r'\w+',w):
            mm=re.search(r'`(\w+)`',m['message']); 
            # span may be a path a::b
            last=re.search(r'(\w+)$',w)
            w2=last.group(1) if last and re.fullmatch(r'[\w:]+',w) else None
            if w2: st=sp['byte_end']-len(w2)
            else: left.append((f,sp['line_start'],code,m['message'])); continue
        else: w2=w; st=sp['byte_start']
        cand=[r for r in byold.get(w2,[]) if r[0] in KIND.get(code,())]
        for flt in (lambda r:r[1]==f and r[0]!='local',lambda r:r[1]==f,lambda r:crate(r[1])==crate(f) and r[0]!='local',lambda r:r[0] in ('type','mod')):
            c={r[3] for r in cand if flt(r)}
            if len(c)==1:
                fixes[f][(st,st+len(w2))]=next(iter(c)); break
            if len(c)>1: left.append((f,sp['line_start'],code,m['message']+f' candidates {c}')); break
        else: left.append((f,sp['line_start'],code,m['message']))
    n=0
    for f,fx in fixes.items():
        b=open(f,'rb').read()
        for (s,e),new in sorted(fx.items(),reverse=True): b=b[:s]+new.encode()+b[e:]; n+=1
        open(f,'wb').write(b)
    total+=n
    print('round',rnd,'fixed',n,'left',len(left),flush=True)
    if n==0: break
for x in sorted(set(left)): print(*x,sep=' | ')
