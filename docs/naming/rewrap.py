#!/usr/bin/env python3
"""rewrap.py FILE...: comment paragraphs of Rust files with a line over 120 columns are filled anew from that line on."""
import re,sys,textwrap
PRE=re.compile(r'^(\s*)(///|//!|//)(?: (.*))?$')
def special(s): return s is None or not s.strip() or re.match(r'\s*([-*|#>]|\d+\.|```)',s)
for f in sys.argv[1:]:
    L=open(f).read().split('\n'); i=0; out=[]; changed=False; fence=False
    while i<len(L):
        m=PRE.match(L[i])
        if m and (m.group(3) or '').strip().startswith('```'): fence=not fence
        if not m or len(L[i])<=120 or fence or re.match(r'\s*[|#]',m.group(3) or ''): out.append(L[i]); i+=1; continue
        ind,p,s=m.groups(); lead=re.match(r'\s*(?:[-*] |\d+\. )?',s).group(0); hang=' '*len(lead)
        words=[s[len(lead):]]; i+=1
        while i<len(L):
            n=PRE.match(L[i])
            if not n or n.group(1)!=ind or n.group(2)!=p or special(n.group(3)): break
            if hang and not n.group(3).startswith(hang): break
            words.append(n.group(3).strip()); i+=1
        text=textwrap.wrap(' '.join(words),120-len(ind)-len(p)-1-len(lead),break_long_words=False,break_on_hyphens=False)
        for k,t in enumerate(text): out.append(f'{ind}{p} {lead if k==0 else hang}{t}')
        changed=True
    if changed: open(f,'w').write('\n'.join(out))
