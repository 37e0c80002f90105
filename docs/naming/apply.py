#!/usr/bin/env python3
"""apply.py TREE EDITS: applies the merged edits (columns in Unicode scalars)."""
import json,sys,os,subprocess
tree,ed=sys.argv[1:3]; d=json.load(open(ed)); conf=0
for p,es in d['edits'].items():
    path=os.path.join(tree,p); t=open(path,encoding='utf-8').read(); lines=t.split('\n')
    starts=[0]
    for l in lines: starts.append(starts[-1]+len(l)+1)
    off=lambda a,b:starts[a]+b
    by={}
    pre={}; post={}
    for a,b,c,e,n,row in es:
        s,e2=off(a,b),off(c,e)
        if s==e2 and n.endswith(': '): pre[s]=n[:-2]
        if s==e2 and n.startswith(': '): post[s]=n[2:]
    import re
    def skip(s,e,n,row):
        kind=row.split('/')[1]
        if kind not in('fn','mod') or s==e: return False
        old=t[s:e]
        nxt=t[e:e+2]
        if nxt[:1]=='(' or nxt=='::' or t[max(0,s-3):s]=='fn ' or t[max(0,s-2):s]=='::': return False
        at=[m.start() for m in re.finditer(r'^\s*(?:pub(?:\([^)]*\))? )?(?:const )?(?:async )?(?:unsafe )?fn \w+',t[:s],re.M)]
        body=t[at[-1]:s] if at else ''
        if re.search(r'let (?:mut |ref )?'+old+r'\b|[(,|{]\s*(?:mut |ref |&)?'+old+r'\s*[:|,)}]|\bfor '+old+r'\b|Some\('+old+r'\)|Ok\('+old,body) : return True
        return nxt[:1]=='.' and kind=='fn'
    full={}
    for a,b,c,e,n,row in es:
        s,e2=off(a,b),off(c,e)
        if s!=e2 and n.endswith(': '+t[s:e2]): full[e2]=s
    for a,b,c,e,n,row in es:
        s,e2=off(a,b),off(c,e)
        if skip(s,e2,n,row): print('SKIP',p,t[s:e2],row); continue
        if s==e2 and n.endswith(': '):
            m=re.match(r'\w+',t[s:]); end=s+m.end()
            if end in post:
                x,y=n[:-2],post[end]; by[(s,end)]=[(x if x==y else f'{x}: {y}',row)]; continue
        if s==e2 and n.startswith(': '):
            m=re.search(r'\w+$',t[max(0,s-80):s]); st=s-len(m.group(0))
            if st in pre or s in full: continue
        if s!=e2 and n.endswith(': '+t[s:e2]) and e2 in post:
            x,y=n[:-len(': '+t[s:e2])],post[e2]; by[(s,e2)]=[(x if x==y else f'{x}: {y}',row)]; continue
        k=(s,e2); by.setdefault(k,[]).append((n,row))
    items=[]
    for (s,e),ns in by.items():
        texts=list(dict.fromkeys(n for n,_ in ns))
        if len(texts)==1: items.append((s,e,texts[0])); continue
        orig=t[s:e]
        # field shorthand 'y: x' combined with a local's 'x: z' or a plain 'z'
        cur=None
        f=[x for x in texts if x.endswith(': '+orig)]; g=[x for x in texts if x.startswith(orig+': ')]
        rest=[x for x in texts if x not in f and x not in g]
        fld=f[0][:-len(': '+orig)] if f else orig
        loc=g[0][len(orig+': '):] if g else orig
        if not rest and (f or g) and len(f)<=1 and len(g)<=1:
            items.append((s,e,fld if fld==loc else f'{fld}: {loc}'))
        else:
            conf+=1; print('CONFLICT',p,orig,ns); items.append((s,e,texts[0]))
    # insertions and replacements that overlap
    items.sort(reverse=True)
    last=None
    for s,e,n in items:
        if last is not None and e>last: print('OVERLAP',p,t[s:e],n); conf+=1; continue
        t=t[:s]+n+t[e:]; last=s
    open(path,'w',encoding='utf-8').write(t)
# deepest files first, folders after
mv=sorted({(a,b) for a,b,_ in d['moves']},key=lambda m:-m[0].count('/'))
for a,b in mv:
    A=os.path.join(tree,a)
    if not os.path.exists(A): print('gone already',a,b); continue
    B=os.path.join(tree,os.path.dirname(a),os.path.basename(b)) if os.path.dirname(a)==os.path.dirname(b) else os.path.join(tree,b)
    os.makedirs(os.path.dirname(B),exist_ok=True)
    if os.path.isdir(A) and os.path.isdir(B):
        for f in os.listdir(A): os.rename(os.path.join(A,f),os.path.join(B,f))
        os.rmdir(A)
    elif os.path.exists(B): print('TARGET THERE',a,b); conf+=1
    else: os.rename(A,B)
print('conflicts',conf,'files',len(d['edits']),'moves',len(mv))
