#!/usr/bin/env python3
"""sync_refs.py TREE PLAN...: paths of moved files and names of tests in files that are not Rust (and in string paths of Rust's include!)."""
import sys,re,os,json,subprocess
tree=sys.argv[1]; plans=sys.argv[2:]
moves=json.load(open('target/naming/moves.json'))
tests={}; fnames={}
for pl in plans:
    for l in open(pl):
        c=l.rstrip('\n').split('\t')
        if len(c)<4 or l.startswith('#'): continue
        k,f,o,n=[x.strip() for x in c[:4]]
        if k in('test',): tests.setdefault(o,set()).add((f,n))
files=subprocess.run(['git','-C',tree,'ls-files','-co','--exclude-standard'],capture_output=True,text=True).stdout.split()
allm=dict(moves)
order=sorted(allm,key=len,reverse=True)
for f in files:
    p=os.path.join(tree,f)
    if f.endswith('.rs') or not os.path.isfile(p) or f.startswith(('benches/records','.git-blame')) or f=='Cargo.lock': continue
    try: t=open(p,encoding='utf-8').read()
    except Exception: continue
    t0=t
    for m in re.findall(r'[\w./-]+\.rs',t):
        if m in allm: t=t.replace(m,allm[m])
    def test(m):
        w=m.group(0)
        if w in tests:
            ns={n for _,n in tests[w]}
            if len(ns)==1: return next(iter(ns))
            print('AMBIGUOUS',f,w,tests[w])
        return w
    t=re.sub(r'\b[a-z][a-z0-9_]{7,}\b',lambda m:test(m) if '_' in m.group(0) else m.group(0),t)
    if t!=t0: open(p,'w',encoding='utf-8').write(t); print('changed',f)
