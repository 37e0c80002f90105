#!/usr/bin/env bash
# plan.sh PLAN: makes the renames of one plan in this tree from target/naming/edits.json (ra_daemon.py), up to what the
# compiler still reports.
set -euo pipefail
plan="docs/naming/$1"
mkdir -p target/naming; ln -sfn ../.. target/naming/tree
[[ -z "$(git status --porcelain)" ]]
python3 docs/naming/apply.py . target/naming/edits.json >target/naming/apply.out; tail -3 target/naming/apply.out
python3 - <<'P'
import json,os,subprocess
d=json.load(open('target/naming/edits.json'))
mv=sorted({(a,b) for a,b,_ in d['moves']},key=lambda m:-m[0].count('/'))
files=subprocess.run(['git','ls-tree','-r','--name-only','HEAD'],capture_output=True,text=True).stdout.split()
moves={}
for f in files:
    cur=f
    for a,b in mv:
        B=os.path.basename(b)
        if f==a or f.startswith(a+'/'):
            depth=a.count('/'); parts=cur.split('/'); parts[depth]=B; cur='/'.join(parts)
    if cur!=f:
        if not os.path.exists(cur): print('not there',f,cur)
        moves[f]=cur
json.dump(moves,open('target/naming/moves.json','w')); print(len(moves),'files moved')
P
cd target/naming/tree
PYTHONPATH=docs/naming python3 docs/naming/fails.py; python3 docs/naming/paths.py
python3 docs/naming/autofix.py . 6 "$plan" >target/naming/autofix.out; grep ^round target/naming/autofix.out
