"""serialised.py PLAN: renamed fields and variants of types that derive Serialize or Deserialize."""
import re,os,json,sys
moves=json.load(open('target/naming/moves.json'))
rows=[[x.strip() for x in l.rstrip('\n').split('\t')] for l in open(sys.argv[1]) if l[0]!='#' and l.count('\t')>=3]
for r in rows:
    k,f,o,n=r[:4]
    if k not in('field','variant'): continue
    f=moves.get(f,f)
    if not os.path.exists(f): print('gone',f); continue
    t=open(f).read()
    own=re.split(r'::|\.',o)[0]
    names=[own]+[x[3] for x in rows if x[0]=='type' and x[2]==own]
    for nm in names:
        m=re.search(r'((?:^\s*#\[[^\n]*\n|^\s*///[^\n]*\n)*)^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum) '+nm+r'\b[^{;]*\{(.*?)^\}',t,re.S|re.M)
        if m and 'erialize' in m.group(1): print(k,f,nm,o,'->',n,'has rename' if 'rename' in m.group(1)+m.group(2) else '')
