#!/usr/bin/env python3
"""strings.py extract TREE OUT PATH...: prose literals outside tests.   strings.py apply TREE FILE... : rows path<TAB>old<TAB>new.
strings.py lits FILE: debugging."""
import re,sys,os,json,glob
TOK=re.compile(r'''//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|'(?:\\(?:x..|u\{[^}]*\}|.)|[^\\'\n])'|'[A-Za-z_]\w*''',re.S)
def literals(t):
    for m in TOK.finditer(t):
        s=m.group(0)
        if s.startswith('"') or s.startswith('r"') or s.startswith('r#'): yield m.start(),m.end(),s
def norm(s):
    "the text between the quotes, line continuations joined"
    if s.startswith('r'): return None
    b=s[1:-1]
    return re.sub(r'\\\n\s*','',b)
def test_start(t):
    m=re.search(r'^#\[cfg\(test\)\]\s*\nmod \w+ \{',t,re.M)
    return m.start() if m else len(t)
def rust(root,paths):
    for p in paths:
        q=os.path.join(root,p)
        if os.path.isfile(q): yield p
        for d,ds,fs in os.walk(q):
            for f in sorted(fs):
                if f.endswith('.rs'): yield os.path.relpath(os.path.join(d,f),root)
if sys.argv[1]=='extract':
    root,out=sys.argv[2:4]; n=0
    with open(out,'w') as o:
        for p in rust(root,sys.argv[4:]):
            if '/tests/' in p or p.endswith('tests.rs') or '/benches/' in p: continue
            t=open(os.path.join(root,p)).read(); end=test_start(t); seen=set()
            for a,b,s in literals(t):
                if a>=end: break
                k=norm(s)
                if not k or k in seen: continue
                words=re.findall(r'[A-Za-z]{2,}',re.sub(r'\{[^}]*\}','',k))
                if len(words)<3 or ' ' not in k.strip(): continue
                line=t[:a].count('\n')+1
                before=t[max(0,a-60):a].split('\n')[-1].strip()
                if re.match(r'.*(expect|reason = |panic!|unreachable!|assert\w*!\([^"]*)\(?$',before): continue
                seen.add(k); n+=1
                o.write(f'{p}\t{line}\t{k}\n')
    print(n)
elif sys.argv[1]=='apply':
    root=sys.argv[2]; miss=0; done=0
    moves={}
    if os.path.exists('target/naming/moves.json'): moves=json.load(open('target/naming/moves.json'))
    by={}
    for f in sys.argv[3:]:
        for l in open(f,encoding='utf-8'):
            c=l.rstrip('\n').split('\t')
            if len(c)!=3 or l.startswith('#'): 
                if l.strip() and not l.startswith('#'): print('BAD',f,l[:100])
                continue
            by.setdefault(c[0],[]).append(c[1:])
    for p,rows in by.items():
        q=os.path.join(root,moves.get(p,p))
        if not os.path.exists(q): print('NOFILE',p); miss+=len(rows); continue
        t=open(q,encoding='utf-8').read(); m={o:n for o,n in rows if o!=n}; hit=set()
        if q.endswith('.rs'):
            out=[];last=0
            for a,b,s in list(literals(t)):
                k=norm(s)
                if k in m:
                    hit.add(k); out.append(t[last:a]); 
                    ind=' '*(len(t[:a].split('\n')[-1])-len(t[:a].split('\n')[-1].lstrip())+4)
                    col=len(t[:a].split('\n')[-1]); new=m[k]
                    if col+len(new)+3<=120: lit='"'+new+'"'
                    else:
                        ls=[];cur='';lim=116-col
                        w=re.findall(r'\S+\s*',new) or [new]
                        lead=re.match(r'\s*',new).group(0)
                        if lead: w[0]=lead+w[0]
                        pos=col+1
                        pad=' '*(col+1)
                        if 118-len(pad)<50: pad=ind
                        for x in w:
                            if pos+len(x.rstrip())>116 and cur: ls.append(cur); cur=''; pos=len(pad)
                            cur+=x; pos+=len(x)
                        ls.append(cur)
                        lit='"'+('\\\n'+pad).join(ls)+'"'
                    out.append(lit); last=b
            out.append(t[last:]); t2=''.join(out)
        else:
            t2=t
        for o,n in m.items():
            if o in hit: continue
            if o in t2: t2=t2.replace(o,n); hit.add(o)
            elif o.replace('\\"','"') in t2 and not q.endswith('.rs'): t2=t2.replace(o.replace('\\"','"'),n.replace('\\"','"')); hit.add(o)
            else: miss+=1; print('MISS',p,o[:110])
        done+=len(hit)
        if t2!=t: open(q,'w',encoding='utf-8').write(t2)
    print('done',done,'missed',miss)
