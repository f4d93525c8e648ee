"""What git may be asked for: the options of each of its commands that neither run, write nor reconfigure anything else.

An option that is not here makes a command high risk, abbreviations too. `~` marks a value that is text, `=` a path.
"""

GLOBAL = "--no-pager -P --no-optional-locks --literal-pathspecs --no-replace-objects -C="

_DIFF = """-p -u --patch -s --no-patch -U~ --unified~ --raw --minimal --patience --histogram --diff-algorithm~ --stat
    --numstat --shortstat --dirstat --summary --patch-with-stat --compact-summary --name-only --name-status --color
    --no-color --word-diff --color-words --word-diff-regex~ --no-renames --check --full-index --binary --abbrev
    --no-abbrev -B? -M? -C? -D --find-renames --find-copies --find-copies-harder --diff-filter~ -S~ -G~ --pickaxe-all
    --pickaxe-regex -R -a --text --ignore-cr-at-eol --ignore-space-at-eol -b --ignore-space-change -w
    --ignore-all-space --ignore-blank-lines -W --function-context --exit-code --quiet -q --no-ext-diff --no-textconv
    --src-prefix~ --dst-prefix~ --no-prefix --relative --no-relative -z --cached --staged --merge-base --stat-width~
    --stat-count~ --inter-hunk-context~ --indent-heuristic --color-moved --no-color-moved --ws-error-highlight~
    --submodule --ignore-submodules -c --cc -m --combined-all-paths --no-indent-heuristic --ours --theirs --base"""
_LOG = f"""{_DIFF} -n~ --max-count~ --skip~ --since~ --after~ --until~ --before~ --author~ --committer~ --grep~
    --grep-reflog~ --all-match --invert-grep -i --regexp-ignore-case --basic-regexp -E --extended-regexp -F
    --fixed-strings -P --perl-regexp --merges --no-merges --min-parents~ --max-parents~ --first-parent --not --all
    --branches --tags --remotes --glob~ --exclude~ --reflog --cherry --cherry-pick --cherry-mark --left-right
    --left-only --right-only -g --walk-reflogs --boundary --simplify-by-decoration --full-history --dense --sparse
    --ancestry-path --date-order --author-date-order --topo-order --reverse --no-walk --oneline --pretty --format~
    --abbrev-commit --no-abbrev-commit --date~ --relative-date --parents --children --graph --decorate --no-decorate
    --decorate-refs~ --decorate-refs-exclude~ --source --follow --full-diff -L~ --count --notes --no-notes --encoding~
    --no-mailmap --use-mailmap --mailmap --expand-tabs --no-expand-tabs -t -r --root --objects"""
_QUIET = "-q --quiet -v --verbose --progress --no-progress"
_FETCH = f"""{_QUIET} -a --all -p --prune -t --tags --no-tags -n --depth~ --deepen~ --unshallow --dry-run --prune-tags
    -j~ --jobs~ --shallow-since~ -4 -6 --no-recurse-submodules --set-upstream --append --keep -k --ff-only --ff
    --no-ff --atomic"""

COMMANDS: dict[str, str] = {
    "status": """-s --short -b --branch --porcelain --long -v --verbose -u? --untracked-files --ignored -z --column
    --ignore-submodules --show-stash --no-column --ahead-behind --no-ahead-behind --renames --no-renames""",
    "log": _LOG,
    "show": _LOG,
    "diff": _DIFF,
    "rev-list": _LOG,
    "reflog": _LOG,
    "whatchanged": _LOG,
    "diff-tree": f"{_LOG} --no-commit-id",
    "shortlog": f"{_LOG} -s -n -e --numbered --summary --email --group~",
    "branch": f"""{_QUIET} -a --all -r --remotes -l --list --show-current --sort~ --format~ --contains --no-contains
    --merged --no-merged --points-at~ -d --delete -m --move -c --copy -u~ --set-upstream-to~ --unset-upstream -t --track
    --no-track --color --no-color --column --no-column --abbrev -i --ignore-case""",
    "tag": """-l --list -n? --sort~ --format~ --contains --no-contains --points-at~ --merged --no-merged -a --annotate
    -m~ --message~ -F= --file= -i --ignore-case --column --no-column --color --cleanup~""",
    "add": f"""{_QUIET} -p -A --all -u --update -n --dry-run -f --force -N --intent-to-add --ignore-errors --chmod~
    --ignore-removal --no-ignore-removal --no-all --renormalize --refresh --sparse""",
    "commit": f"""{_QUIET} -m~ --message~ -a --all --amend --no-edit --allow-empty --allow-empty-message -s --signoff -n
    --no-verify --author~ --date~ -F= --file= -C~ --reuse-message~ --fixup~ --squash~ -o -i --only --include --dry-run
    --short --porcelain --branch --no-gpg-sign --reset-author --cleanup~ --status --no-status -u? --no-post-rewrite -z
    --long""",
    "checkout": f"""{_QUIET} -b~ --detach -d -t --track --no-track --ours --theirs -m --merge --orphan~ -l --guess
    --no-guess -2 -3""",
    "switch": f"{_QUIET} -c~ --create~ -d --detach --guess --no-guess -t --track --no-track --orphan~ -m --merge",
    "restore": f"{_QUIET} -s~ --source~ -S --staged -W --worktree --ours --theirs -m --merge",
    "stash": f"{_LOG} -m~ --message~ -u --include-untracked -k --keep-index --no-keep-index -S --staged --index",
    "init": "-q --quiet -b~ --initial-branch~",
    "rev-parse": """--show-toplevel --abbrev-ref --short --verify --is-inside-work-tree --git-common-dir --git-dir
    --absolute-git-dir --symbolic-full-name --symbolic --show-prefix --show-cdup -q --quiet --all --branches --tags
    --remotes --is-bare-repository --is-inside-git-dir --is-shallow-repository --show-superproject-working-tree
    --git-path~ --show-object-format --not --revs-only --no-revs --flags --no-flags --default~""",
    "ls-files": """-c -d -m -o -i -s -u -z -t -v -k --cached --deleted --modified --others --ignored --stage --unmerged
    --killed --exclude-standard --error-unmatch --full-name --directory --no-empty-directory --eol --abbrev -x~
    --exclude~ --format~ --deduplicate""",
    "ls-tree": """-d -r -t -l -z --name-only --name-status --long --full-name --full-tree --abbrev --format~
        --object-only""",
    "ls-remote": "--heads --tags -h -t -q --quiet --refs --symref --exit-code --get-url --sort~",
    "cat-file": "-t -s -e -p",
    "blame": """-L~ -l -t -w -M? -C? -s -e --show-email -p --porcelain --line-porcelain --date~ --since~ --root
    --reverse --first-parent --abbrev -n --show-number -f --show-name -c --score-debug --no-textconv --no-ext-diff""",
    "describe": """--tags --all --always --long --abbrev --dirty --broken --match~ --exclude~ --first-parent
    --exact-match --candidates~ --contains --debug""",
    "merge-base": "-a --all --octopus --independent --is-ancestor --fork-point",
    "reset": f"{_QUIET} --soft --mixed -N --intent-to-add --no-refresh --refresh",
    "merge": f"""{_QUIET} --ff --no-ff --ff-only --no-commit --commit --squash --no-squash -m~ --abort --continue --quit
    --stat --no-stat -n --no-edit --no-verify --log --no-log --autostash --no-autostash --no-gpg-sign --signoff""",
    "cherry-pick": """-n --no-commit -x -m~ --mainline~ --abort --continue --skip --quit --ff -s --signoff --no-gpg-sign
    --allow-empty --keep-redundant-commits""",
    "revert": "--no-edit -n --no-commit -m~ --mainline~ --abort --continue --skip --quit -s --signoff --no-gpg-sign",
    "mv": "-v --verbose -n --dry-run -k",
    "rm": "-r --cached -n --dry-run -q --quiet --ignore-unmatch --sparse",
    "grep": """-n -i -I -l -L -c -w -v -E -F -P -G -h -H -o -e~ -q -r -z --cached --untracked --name-only --count
    --line-number --ignore-case --word-regexp --max-depth~ -A~ -B~ -C~ --context~ --after-context~ --before-context~
    --color --no-color --heading --break -p --show-function -W --function-context --and --or --not -a --text --column
    --only-matching --all-match --fixed-strings --extended-regexp --perl-regexp --basic-regexp -m~ --max-count~
    --files-with-matches --files-without-match --invert-match --full-name --recursive --no-recursive --quiet
    --exclude-standard --no-exclude-standard --null --threads~""",
    "remote": "-v --verbose -n --all --push",
    "fetch": _FETCH,
    "pull": f"""{_FETCH} --rebase --no-rebase -r --autostash --no-autostash --squash --no-squash --no-edit --no-commit
    --commit --stat --no-stat --no-verify --no-gpg-sign""",
    "clone": f"""{_QUIET} --depth~ -b~ --branch~ --single-branch --no-single-branch --no-tags --shallow-since~ --filter~
    --no-checkout -n -o~ --origin~ --sparse -j~ --jobs~""",
    "rebase": f"""{_QUIET} --continue --abort --skip --quit --onto~ --autostash --no-autostash --stat --no-stat -n
        --root --no-ff --keep-base --rebase-merges --no-verify --fork-point --no-fork-point
        --committer-date-is-author-date --update-refs --no-update-refs --empty~ --no-gpg-sign --show-current-patch
        --apply --merge""",
    "config": """--get --get-all --get-regexp --list -l --show-origin --show-scope --name-only --local --global --system
    --worktree --null -z --type~ --bool --int --path --default~ --includes --no-includes""",
    "show-ref": "--head --heads --tags -d --dereference -s --hash --verify --abbrev -q --quiet --branches",
    "for-each-ref": "--count~ --sort~ --format~ --points-at~ --merged --no-merged --contains --no-contains --color",
    "check-ignore": "-q --quiet -v --verbose -n --non-matching --no-index",
    "count-objects": "-v --verbose -H --human-readable",
    "name-rev": "--tags --refs~ --exclude~ --all --name-only --no-undefined --always",
    "cherry": "-v --abbrev",
    "worktree": "-v --verbose --porcelain -z",
    "submodule": "--cached --recursive -q --quiet",
    "version": "--build-options",
}

SECOND: dict[str, frozenset[str]] = {
    "stash": frozenset({"push", "pop", "list", "show", "apply", "save", "branch"}),
    "reflog": frozenset({"show", "exists"}),
    "remote": frozenset({"show", "get-url"}),
    "worktree": frozenset({"list"}),
    "submodule": frozenset({"status", "summary"}),
}
"""Commands whose first operand is a command again, and the ones of those that are taken."""

READING = COMMANDS.keys() - {
    *("checkout", "switch", "restore", "stash", "init", "reset", "merge", "cherry-pick", "revert", "mv", "rm"),
    *("pull", "clone", "rebase"),
}
"""Commands that write nothing that their words name: the index and the objects are git's own."""

CONFIG_READS = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l"})
OWN_KEYS = frozenset({"user.name", "user.email", "init.defaultbranch", "pull.rebase", "core.autocrlf", "color.ui"})
"""Settings that can be given a value: none of them makes git run anything."""
