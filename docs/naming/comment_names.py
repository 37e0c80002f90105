#!/usr/bin/env python3
"""comment_names.py TREE PLAN...: old names in backticks in comments become the new ones. moves.json: old path -> new path."""
import sys,re,os,json,collections,subprocess
tree=sys.argv[1]; plans=sys.argv[2:]
moves=json.load(open('target/naming/moves.json')) if os.path.exists('target/naming/moves.json') else {}
crate=lambda p:'/'.join(p.split('/')[:2]) if p.startswith(('server/','tests/','encoder/kernels')) else p.split('/')[0]
byfile=collections.defaultdict(lambda:collections.defaultdict(set)); bycrate=collections.defaultdict(lambda:collections.defaultdict(set)); glob=collections.defaultdict(set)
kinds=collections.defaultdict(set)
for pl in plans:
    for l in open(pl):
        c=l.rstrip('\n').split('\t')
        if len(c)<4 or l.startswith('#'): continue
        k,f,o,n=[x.strip() for x in c[:4]]
        f=moves.get(f,f); last=re.split(r'::|\.|/',o)[-1]
        if k=='local': continue
        if k=='mod': pass
        byfile[f][last].add(n); bycrate[crate(f)][last].add(n); glob[last].add(n); kinds[last].add(k)
# identifiers that still exist in code
files=subprocess.run(['git','-C',tree,'ls-files','-co','--exclude-standard'],capture_output=True,text=True).stdout.split()
rs=[f for f in files if f.endswith('.rs') and os.path.exists(os.path.join(tree,f))]
COM=re.compile(r'//[^\n]*|"(?:\\.|[^"\\])*"|r(#*)".*?"\1|\'(?:\\.|[^\\\'])\'',re.S)
live=set(); texts={}
livecrate=collections.defaultdict(set)
for f in rs:
    t=open(os.path.join(tree,f)).read(); texts[f]=t
    code=COM.sub(' ',t); ids=set(re.findall(r'\b[A-Za-z_]\w*\b',code)); live|=ids; livecrate[crate(f)]|=ids
SPAN=re.compile(r'`([^`\n]+)`')
n=0
for f in rs:
    t=texts[f]; c=crate(f)
    fileids=set(re.findall(r'\b[A-Za-z_]\w*\b',COM.sub(' ',t)))
    def ident(m):
        global n
        w=m.group(0)
        for table,ids in ((byfile[f],fileids),(bycrate[c],livecrate[c]),(glob,live)):
            if w in table and len(table[w])==1:
                if w in ids: return w
                n+=1; return next(iter(table[w]))
            if w in table: return w
        return w
    def span(m):
        s=m.group(1)
        if re.fullmatch(r'[\w:.<>()&\[\]\', ]+',s) is None: return m.group(0)
        if ' ' in s and not re.match(r'[\w:]+(<|\()',s): return m.group(0)
        return '`'+re.sub(r'\b[A-Za-z_]\w*\b',ident,s)+'`'
    def com(m):
        s=m.group(0)
        if not s.startswith('//'): return s
        s=SPAN.sub(span,s)
        s=re.sub(r'(\]\()((?:crate|super|self|recalld_\w+|engine|encoder)(?:::\w+)+)',lambda k:k.group(1)+re.sub(r'\b[A-Za-z_]\w*\b',ident,k.group(2)),s)
        return s
    t2=COM.sub(com,t)
    if t2!=t: open(os.path.join(tree,f),'w').write(t2)
print('names in comments',n)
