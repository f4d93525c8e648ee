# What git is called by in a command: its own settings first, so that no program runs that a repository names.
#
# adderclaw_git N WORDS...: the words of git's command line, of which the first N stand before the command.
#
# Given as variables by `hardened.py`:
#   ADDERCLAW_GIT          the program
#   ADDERCLAW_LFS, ADDERCLAW_NAME, ADDERCLAW_EMAIL   each may be empty
#   ADDERCLAW_ALONE        not empty where git may do more than other commands: in its own view, or without a sandbox
#   ADDERCLAW_HERE         not empty where git is called in the shell's own directory and environment; `last` where
#                          nothing else is called
# From the sandbox's look at the workspace:
#   ADDERCLAW_GIT_DIRS     every git directory, one in a line
#   ADDERCLAW_PLAIN        `yes` or `named` where no setting of a repository has to be looked at; `named`: one says who
#                          commits
#   ADDERCLAW_HOOKS        the hooks that there are
# From the broker, where a remote may be reached:
#   ADDERCLAW_BROKER, ADDERCLAW_ASK, ADDERCLAW_ASK_BY   how it is asked, for a password for one: only git gets them
#                          that does what was approved, no git that looks for us and nothing beside it
#   ADDERCLAW_WEB, ADDERCLAW_PROTOCOLS
#   ADDERCLAW_LARGE        where that remote has its large files; empty where they cannot be reached
#   ADDERCLAW_NEAR         the port of that remote, where it is on this machine
#
# It works under `set -e`, `-u` and `-f`, and changes nothing of the shell that it runs in.

export -n ADDERCLAW_BROKER ADDERCLAW_ASK ADDERCLAW_ASK_BY

adderclaw_look() {
  # Git that looks something up for us: it has no way to the broker.
  if [ -n "${ADDERCLAW_BROKER:-}" ]; then
    (exec {ADDERCLAW_BROKER}>&- && exec "$ADDERCLAW_GIT" "$@")
  else
    "$ADDERCLAW_GIT" "$@"
  fi
}

adderclaw_do() {
  # Runs what was approved, which may ask the broker.
  if [ -n "${ADDERCLAW_BROKER:-}" ]; then local -x ADDERCLAW_BROKER=$ADDERCLAW_BROKER ADDERCLAW_ASK=$ADDERCLAW_ASK; fi
  "$@"
}

adderclaw_settings() {
  # Every setting that git would read here, as KEY NEWLINE VALUE NUL; then "end". In git's own view also those of every
  # other repository of the workspace, since git calls git in submodules.
  local -x GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.bareRepository GIT_CONFIG_VALUE_0=explicit
  local -x GIT_CONFIG_KEY_1=safe.directory GIT_CONFIG_VALUE_1='*' file
  adderclaw_look "$@" config --list -z || return
  if [ -n "$ADDERCLAW_ALONE" ]; then
    adderclaw_files "$@" | while IFS= read -r -d '' file; do
      cat -- "$file" && printf '\n\n'
    done | adderclaw_look config --file - --list -z || return
  fi
  printf 'end\0'
}

adderclaw_files() {
  # The settings of submodules and of other repositories: files that the listing above does not read.
  local common folder line
  common=$(adderclaw_look "$@" rev-parse --path-format=absolute --git-common-dir 2>/dev/null) || common=
  printf '%s\n' "${common//\\/\\\\}" "${ADDERCLAW_GIT_DIRS:-}" | while IFS= read -r line; do
    folder=$(printf '%b.' "$line") folder=${folder%.}
    if [ -n "$folder" ]; then
      if [ "$folder" != "$common" ]; then
        find "$folder" -maxdepth 1 -name 'config*' ! -type d -print0
      fi
      if [ -d "$folder/modules" ]; then
        find "$folder/modules" -name 'config*' ! -type d -print0
      fi
    fi
  done
}

adderclaw_asked() {
  # Sets `asked`: the hooks that git runs for a command.
  asked='reference-transaction post-index-change'
  case $1 in
    commit) asked="pre-commit prepare-commit-msg commit-msg post-commit post-rewrite $asked" ;;
    merge | pull) asked="pre-merge-commit prepare-commit-msg commit-msg post-merge pre-rebase post-rewrite $asked" ;;
    rebase) asked="pre-rebase prepare-commit-msg commit-msg post-commit post-checkout post-rewrite $asked" ;;
    cherry-pick | revert) asked="prepare-commit-msg commit-msg post-commit $asked" ;;
    checkout | switch | worktree | clone | submodule) asked="post-checkout $asked" ;;
    push) asked="pre-push $asked" ;;
  esac
}

adderclaw_is_plain() {
  # Whether it is known without asking git that nothing is to be overridden or named for a command.
  local asked name
  [ -n "${ADDERCLAW_HERE:-}" ] || return
  case ${ADDERCLAW_PLAIN:-} in
    yes) ;;
    named)
      case $1 in
        add | blame | branch | cat-file | checkout | describe | diff | fetch | for-each-ref | grep | log | ls-files | \
          ls-remote | ls-tree | merge-base | push | reset | restore | rev-list | rev-parse | shortlog | show | \
          show-ref | status | switch) ;;
        *) return 1 ;;
      esac ;;
    *) return 1 ;;
  esac
  adderclaw_asked "$1"
  for name in $asked; do
    case " ${ADDERCLAW_HOOKS:-} " in *" $name "* | *' * '*) return 1 ;; esac
  done
}

adderclaw_hooks() {
  # The hooks that git would have run for a command, were this not hardened git: those that are there, by their names.
  local hooks=$1 command=$2 asked common top name found='' ; shift 2
  adderclaw_asked "$command"
  common=$(adderclaw_look "$@" rev-parse --path-format=absolute --git-common-dir 2>/dev/null) || return 0
  if [ -z "$hooks" ]; then
    hooks=$common/hooks
  elif [ "${hooks#/}" = "$hooks" ]; then
    top=$(adderclaw_look "$@" rev-parse --show-toplevel 2>/dev/null) || return 0
    hooks=$top/$hooks
  fi
  for name in $asked; do
    if [ -f "$hooks/$name" ] && [ -n "$(find -L "$hooks/$name" -maxdepth 0 -perm -100 2>/dev/null)" ]; then
      found="$found${found:+, }$name"
    fi
  done
  if [ -n "$found" ]; then
    printf 'adderclaw: hooks not run: %s\n' "$found" >&2
  fi
}

adderclaw_pushed() {
  # Sets the caller's `remote` and `refs`: what a push with these words sends, as the ids of objects, so that no word of
  # the command is read again as an option; no refs where it sends nothing. Fails where a word is no refspec.
  local word skip='' named=''
  for word in "$@"; do
    if [ -n "$skip" ]; then skip=''; continue; fi
    case $word in
      -n | --dry-run | -d | --delete) refs=(); return ;;
      -o | --push-option | --repo | --exec | --receive-pack) skip=yes ;;
      --all | --branches | --mirror) adderclaw_refs refs/heads; named=yes ;;
      --tags) adderclaw_ref HEAD; adderclaw_refs refs/tags; named=yes ;;
      -* | tag) ;;
      *)
        if [ -z "$remote" ]; then remote=$word; continue; fi
        named=yes word=${word#+} word=${word%%:*}
        case $word in
          '') ;;
          [-+]*)
            printf 'adderclaw: git was not run: %s is no name of a branch or tag: name what is to be pushed\n' "$word" >&2
            return 1 ;;
          *'*'*) adderclaw_refs refs/heads refs/tags ;;
          *) adderclaw_ref "$word" ;;
        esac ;;
    esac
  done
  if [ -n "$named" ]; then return; fi
  if adderclaw_look ${before[@]+"${before[@]}"} config --get-regexp '^(push\.default|remote\..*\.(push|mirror))$' \
    >/dev/null 2>&1; then
    adderclaw_refs refs/heads
  else
    adderclaw_ref HEAD
  fi
}

adderclaw_ref() {
  # Adds what a word names to the caller's `refs`; git itself says of a word that names nothing that it does not.
  local id
  id=$(adderclaw_look ${before[@]+"${before[@]}"} rev-parse --verify -q --end-of-options "$1" 2>/dev/null) || return 0
  case $id in
    '' | *[!0-9a-f]*) ;;
    *) refs+=("$id") ;;
  esac
}

adderclaw_refs() {
  # Adds the refs beneath these to the caller's `refs`.
  local id
  while IFS= read -r id; do refs+=("$id"); done < <(
    adderclaw_look ${before[@]+"${before[@]}"} for-each-ref --format='%(objectname)' -- "$@"
  )
}

adderclaw_large() {
  # Prints how many pointers of LFS there are among the caller's `refs` that `remote` has no branch with yet.
  local id uses='' oid kind size
  for id in ${refs[@]+"${refs[@]}"}; do
    if adderclaw_look ${before[@]+"${before[@]}"} grep -q -e filter=lfs "$id" -- \
      ':(top,glob)**/.gitattributes' 2>/dev/null; then
      uses=yes
      break
    fi
  done
  if [ -z "$uses" ]; then return; fi
  adderclaw_look ${before[@]+"${before[@]}"} rev-list --objects --no-object-names "${refs[@]}" \
    --not --remotes${remote:+="$remote"} -- 2>/dev/null |
    adderclaw_look ${before[@]+"${before[@]}"} cat-file --batch-check='%(objectname) %(objecttype) %(objectsize)' |
    while read -r oid kind size; do
      if [ "$kind" = blob ] && [ "$size" -lt 1024 ]; then printf '%s\n' "$oid"; fi
    done |
    adderclaw_look ${before[@]+"${before[@]}"} cat-file --batch |
    grep -a -c '^version https://git-lfs.github.com/spec/v1$'
}

adderclaw_override() {
  # One setting of a repository, as KEY NEWLINE VALUE: sets `gives` and `as`, where something else is to count; `name`,
  # `email`, `hooks` and `filters`, which are the caller's; `ended` at the end. Fails where git must not run.
  local key=${1%%$'\n'*} value=${1#*$'\n'} filter
  gives=yes as=false
  case $key in
    end) ended=yes gives='' ;;
    include.path | includeif.*.path | lfs.extension.* | lfs.customtransfer.*.path | lfs.standalonetransferagent | \
      gc.recentobjectshook | remote.*.vcs | remote.*.uploadpack | remote.*.receivepack)
      # Of these what comes first counts, or all of them do: what is given after them changes nothing.
      if [ -n "$ADDERCLAW_ALONE" ]; then adderclaw_refuse "$key" 'names another file or program'; return 1; fi
      gives='' ;;
    filter.lfs.*) gives='' ;;
    filter.*.clean | filter.*.smudge | filter.*.process)
      as=''
      filter=${key#filter.}
      case ", $filters, " in
        *", ${filter%.*}, "*) ;;
        *) filters="$filters${filters:+, }${filter%.*}" ;;
      esac ;;
    diff.*.textconv) as=cat ;;
    merge.*.driver) as='git merge-file %A %O %B' ;;
    submodule.*.update)
      as=checkout
      if [ "${value#!}" = "$value" ]; then gives=''; fi ;;
    trailer.*.command | trailer.*.cmd | hook.*.command) as=true ;;
    diff.external | pager.* | *.command | *.cmd | *.program | *.defaultkeycommand | man.*.path | browser.*.path) ;;
    http.proxy | http.*.proxy | remote.*.proxy) as=$proxy gives=$web ;;
    http.sslverify | http.*.sslverify) as=true gives=$web ;;
    http.sslca* | http.*.sslca* | http.curloptresolve | http.*.curloptresolve)
      gives=''
      if [ -n "$web" ]; then adderclaw_refuse "$key" 'changes whom git takes a server for'; return 1; fi ;;
    user.name) name=$value gives='' ;;
    user.email) email=$value gives='' ;;
    core.hookspath) hooks=$value gives='' ;;
    *) gives='' ;;
  esac
}

adderclaw_refuse() {
  printf 'adderclaw: git was not run: %s in the settings of a repository here %s; %s\n' "$1" "$2" \
    'remove it from them, or run the command yourself' >&2
}

adderclaw_own() {
  # Adds to the caller's `ours` what counts whatever a repository says: SETTING VALUE ...
  ours=(safe.directory '*')
  if [ -z "$name" ] && [ -n "$ADDERCLAW_NAME" ]; then ours+=(user.name "$ADDERCLAW_NAME"); fi
  if [ -z "$email" ] && [ -n "$ADDERCLAW_EMAIL" ]; then ours+=(user.email "$ADDERCLAW_EMAIL"); fi
  if [ -n "$ADDERCLAW_LFS" ]; then
    ours+=(filter.lfs.clean "$ADDERCLAW_LFS clean -- %f" filter.lfs.smudge "$ADDERCLAW_LFS smudge -- %f")
    ours+=(filter.lfs.process "$ADDERCLAW_LFS filter-process" filter.lfs.required true)
  else
    ours+=(filter.lfs.clean '' filter.lfs.smudge '' filter.lfs.process '')
  fi
  if [ -n "$web" ]; then
    ours+=(http.proxy "$proxy" credential.helper "!$ADDERCLAW_ASK_BY credential" http.sslVerify true)
  fi
  # Large files are where the approved remote has them, whatever a repository says.
  if [ -n "$files" ]; then ours+=(lfs.url "$files" lfs.pushurl "$files"); fi
  # Where the git directory is read-only, what LFS makes to compare with goes elsewhere.
  if [ -z "$ADDERCLAW_ALONE" ]; then ours+=(lfs.storage "${TMPDIR:-/tmp}/adderclaw-lfs"); fi
}

adderclaw_may_push() {
  # Sends the large files of what is pushed, as LFS's own hook would. Fails, and says so, where they cannot be sent.
  local large remote='' top
  local -a refs=()
  adderclaw_pushed "$@" || return
  large=$(adderclaw_large) || :
  if [ "${large:-0}" = 0 ]; then return; fi
  if [ -z "$files" ]; then
    adderclaw_no_files "$large large files (LFS) belong to what is pushed"
    return 1
  fi
  if [ -z "$remote" ]; then
    remote=$(adderclaw_look ${before[@]+"${before[@]}"} for-each-ref --format='%(push:remotename)' \
      "$(adderclaw_look ${before[@]+"${before[@]}"} symbolic-ref -q HEAD)" 2>/dev/null) || :
  fi
  top=$(adderclaw_look ${before[@]+"${before[@]}"} rev-parse --show-toplevel) || return
  if ! (cd -- "$top" && adderclaw_do "$ADDERCLAW_LFS" push -- "${remote:-origin}" "${refs[@]}"); then
    printf 'adderclaw: git was not run: %s large files (LFS) could not be sent; %s\n' "$large" \
      'without them the remote would have pointers that lead nowhere' >&2
    return 1
  fi
}

adderclaw_no_files() {
  # Says of what was asked for ($1) that no large file can be sent or fetched, and why.
  local why='that needs a remote over https or http, one in a call'
  if [ -z "$ADDERCLAW_LFS" ]; then
    why='git-lfs is not installed'
  elif [ -n "$occupied" ]; then
    why="something in the sandbox uses the remote's port, ${ADDERCLAW_NEAR:-}: end it first"
  fi
  printf 'adderclaw: git was not run: %s, and their content cannot be transferred from here (%s); %s\n' "$1" "$why" \
    'run the command yourself, outside' >&2
}

adderclaw_git() {
  local IFS=$' \t\n' ahead=$1
  shift
  local -a before=("${@:1:ahead}") ours=()
  local command="${*:ahead+1:1}" entry gives as ended='' plain='' name='' email='' hooks='' filters=''
  local n=${GIT_CONFIG_COUNT:-0} at status=0 proxy='' web='' files='' occupied=''
  local -x GIT_CONFIG_GLOBAL=/dev/null GIT_ALLOW_PROTOCOL=${ADDERCLAW_PROTOCOLS:-file:http:https:ssh}
  if [ -n "$ADDERCLAW_ALONE" ] && [ -n "${ADDERCLAW_WEB:-}" ]; then
    # The one way out that was approved for this call; the broker outside is at its other end.
    read -r proxy occupied <<<"$(adderclaw_do eval "$ADDERCLAW_ASK_BY proxy")"
    proxy=http://127.0.0.1:$proxy web=yes
    if [ "$occupied" = clear ]; then occupied=''; fi
    if [ -n "$ADDERCLAW_LFS" ] && [ -z "$occupied" ]; then files=${ADDERCLAW_LARGE:-}; fi
    local -x NO_PROXY='' no_proxy=''
  fi
  if [ -n "$ADDERCLAW_ALONE" ] && [ -n "${ADDERCLAW_BROKER:-}" ] && [ -z "$files" ]; then
    local -x GIT_LFS_SKIP_SMUDGE=1  # a checkout with pointers, not one that fails
  fi
  if [ "$ahead" = 0 ] && adderclaw_is_plain "$command"; then plain=yes ended=yes; fi
  if [ -z "$plain" ]; then
    while IFS= read -r -d '' entry; do
      adderclaw_override "$entry" || return 128
      if [ -n "$gives" ]; then
        local -x "GIT_CONFIG_KEY_$n=${entry%%$'\n'*}" "GIT_CONFIG_VALUE_$n=$as"
        n=$((n + 1))
      fi
    done < <(adderclaw_settings ${before[@]+"${before[@]}"})
  fi
  if [ -z "$ended" ]; then
    printf 'adderclaw: git was not run: the settings of a repository here cannot be read\n' >&2
    return 128
  fi
  adderclaw_own
  for ((at = 0; at < ${#ours[@]}; at += 2)); do
    local -x "GIT_CONFIG_KEY_$n=${ours[at]}" "GIT_CONFIG_VALUE_$n=${ours[at + 1]}"
    n=$((n + 1))
  done
  local -x GIT_CONFIG_COUNT=$n
  if [ "$command" = push ] && [ -n "$ADDERCLAW_ALONE" ]; then adderclaw_may_push "${@:ahead+2}" || return 128; fi
  case "$command ${*:ahead+2:1}" in
    'lfs push' | 'lfs fetch' | 'lfs pull')
      if [ -z "$files" ]; then adderclaw_no_files 'it is about large files (LFS)'; return 128; fi ;;
  esac
  if [ -n "$plain" ] && [ "$ADDERCLAW_HERE" = last ] && [ "$command" != push ]; then
    adderclaw_do exec "$ADDERCLAW_GIT" "$@"
  fi
  adderclaw_do "$ADDERCLAW_GIT" "$@" || status=$?
  if [ -n "$ADDERCLAW_ALONE" ] && [ -z "$plain" ]; then
    if [ -n "$filters" ]; then printf 'adderclaw: filters not run: %s\n' "$filters" >&2; fi
    adderclaw_hooks "$hooks" "$command" ${before[@]+"${before[@]}"} || :
  fi
  return $status
}
