import re,os,subprocess,json
moves=json.load(open('target/naming/moves.json')); inv={b:a for a,b in moves.items()}
fs=[f for f in subprocess.run(['git','ls-files','-co','--exclude-standard'],capture_output=True,text=True).stdout.split() if f.endswith('.rs') and os.path.exists(f)]
for f in fs:
    t=open(f).read(); t0=t
    for m in re.finditer(r'(#\[path = "|include_(?:str|bytes)!\("|include!\(")([^"]+)"',t0):
        p=m.group(2); d=os.path.dirname(f)
        cand=[os.path.normpath(os.path.join(d,p))]; base=os.path.splitext(os.path.basename(f))[0]
        if m.group(1).startswith('#[path') : cand.append(os.path.normpath(os.path.join(d,base,p)))
        if any(os.path.exists(c) for c in cand): continue
        old=inv.get(f,f); o=os.path.normpath(os.path.join(os.path.dirname(old),p)); new=moves.get(o,o)
        if os.path.exists(new): t=t.replace('"'+p+'"','"'+os.path.relpath(new,d)+'"')
        else: print('??',f,p,o)
    if t!=t0: open(f,'w').write(t)
