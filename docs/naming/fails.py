import json,re,os
TOK=re.compile(r'''//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|'(?:\\(?:x..|u\{[^}]*\}|.)|[^\\'\n])\'''',re.S)
def code_sub(pat,new,t):
    out=[];last=0
    for m in TOK.finditer(t):
        out.append(re.sub(pat,new,t[last:m.start()])); out.append(m.group(0)); last=m.end()
    out.append(re.sub(pat,new,t[last:])); return ''.join(out)
if __name__=='__main__':
  d=json.load(open('target/naming/edits.json')); moves=json.load(open('target/naming/moves.json'))
  for f in d['fails']:
    why,_,plan,kind,path,old,new=f
    p=moves.get(path,path); q='target/naming/tree/'+p
    t=open(q).read()
    if kind=='test': n=code_sub(r'\bfn '+old+r'\b','fn '+new,t)
    elif kind in('type','const'): n=code_sub(r'(?<!\w)'+old+r'\b',new,t)
    else: continue
    if n==t: print('none',f[2:])
    open(q,'w').write(n)
