"""stale_names.py PLAN: names in backticks in comments that no code of the file has any more."""
import re,subprocess,os,sys
rows=[l.rstrip('\n').split('\t') for l in open(sys.argv[1]) if l[0]!='#' and l.count('\t')>=3]
mods={}
for r in rows:
    if r[0].strip()!='local':
        crate='/'.join(r[1].split('/')[:2]); mods.setdefault(crate,{}).setdefault(re.split(r'::|\.',r[2])[-1].strip(),set()).add((r[0],r[3].strip()))
for crate,names in mods.items():
    for f in subprocess.run(['git','ls-files',crate],capture_output=True,text=True).stdout.split():
        if not f.endswith('.rs') or not os.path.exists(f): continue
        t=open(f).read()
        code=set(re.findall(r'\b\w+\b',re.sub(r'//[^\n]*','',t)))
        for i,l in enumerate(t.split('\n'),1):
            m=re.search(r'//.*',l)
            if not m: continue
            for s in re.findall(r'`([^`]+)`',m.group(0)):
                for w in re.findall(r'\b[A-Za-z_]\w*\b',s):
                    if w in names and w not in code: print(f'{f}:{i}: `{s}` {w} -> {names[w]}')
