"""check_strings.py: string literals of the tree that differ from those of HEAD; only inline format arguments may."""
import subprocess,re,collections,os
TOK=re.compile(r'''//[^\n]*|/\*.*?\*/|(b?r(#*)".*?"\2|b?"(?:\\.|[^"\\])*")|'(?:\\(?:x..|u\{[^}]*\}|.)|[^\\'\n])\'''',re.S)
def strs(t): return [re.sub(r'\\\n\s*','',m.group(1)) for m in TOK.finditer(t) if m.group(1)]
old=collections.Counter(); new=collections.Counter()
fs=[f for f in subprocess.run(['git','ls-tree','-r','--name-only','HEAD'],capture_output=True,text=True).stdout.split() if f.endswith('.rs')]
p=subprocess.Popen(['git','cat-file','--batch'],stdin=subprocess.PIPE,stdout=subprocess.PIPE)
for f in fs:
    p.stdin.write(f'HEAD:{f}\n'.encode()); p.stdin.flush(); h=p.stdout.readline().split(); b=p.stdout.read(int(h[2])); p.stdout.read(1)
    old.update(strs(b.decode()))
for f in subprocess.run(['git','ls-files','-co','--exclude-standard'],capture_output=True,text=True).stdout.split():
    if f.endswith('.rs') and os.path.isfile(f): new.update(strs(open(f).read()))
for s,n in (old-new).items(): print('-',n,s[:150])
for s,n in (new-old).items(): print('+',n,s[:150])
