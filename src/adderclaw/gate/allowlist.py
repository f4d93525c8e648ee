"""The built-in list of programs, as data: the options of each that are known, and which of them do harm.

Programs that only look have a list of the options that are refused. Programs that run code or write files have a
closed table: an option that it does not name is refused, abbreviations included. `options.kinds` says how to read one.
"""

from typing import NamedTuple

from adderclaw.gate import git


def names(text: str) -> frozenset[str]:
    """A set of names that is written as one text."""
    return frozenset(text.split())


class Options(NamedTuple):
    known: str = ""
    """The table of the options."""
    closed: bool = False
    """Whether an option that the table does not know is refused."""
    refused: frozenset[str] = frozenset()
    """Of an open table: options that run a program, write a file or change where things are read from."""
    commands: dict[str, str] | None = None
    """The commands that are taken, each with its closed table."""
    single_dash: bool = False
    """Long options are written with one dash (find, go): no bundles of letters."""
    bare: frozenset[str] = frozenset()
    """Options that may stand alone, in the place of a command."""


def closed(known: str, *, single_dash: bool = False) -> Options:
    return Options(known, closed=True, single_dash=single_dash)


def refusing(refused: str, known: str = "") -> Options:
    return Options(known, refused=names(refused))


ANY = Options()

_GREP = """-A~ -B~ -C~ -m~ -d~ -D~ -e~ -f= --regexp~ --file= --after-context~ --before-context~ --context~ --max-count~
    --include~ --exclude~ --exclude-dir~ --exclude-from= --color --colour --binary-files~ --directories~ --devices~
    --label~ --group-separator~ -a -b -c -E -F -G -P -h -H -i -I -l -L -n -o -q -r -R -s -T -u -U -v -w -x -y -z -Z
    --extended-regexp --fixed-strings --basic-regexp --perl-regexp --ignore-case --no-ignore-case --word-regexp
    --line-regexp --null-data --no-messages --invert-match --version --help --byte-offset --line-number --line-buffered
    --with-filename --no-filename --only-matching --quiet --silent --text --recursive --dereference-recursive
    --files-without-match --files-with-matches --count --initial-tab --null"""
_LINES = "-n~ -c~ --lines~ --bytes~ -q -v -z -f -F -s~ --quiet --silent --verbose --follow --retry"
_HASH = "-b -c -t -z -w --binary --check --tag --text --zero --ignore-missing --quiet --status --strict --warn"

LOOKING: dict[str, Options] = {
    **dict.fromkeys(
        names("""ls pwd cat nl tac comm rev seq basename dirname realpath readlink df uname whoami id which cmp sleep
        echo printf true false test [ : cd exit"""),
        ANY,
    ),
    **dict.fromkeys(("grep", "egrep", "fgrep"), Options(_GREP)),
    "head": Options(_LINES),
    "tail": Options(_LINES),
    "cut": Options("-d~ -f~ -b~ -c~ --delimiter~ --fields~ --bytes~ --characters~ --output-delimiter~ -s -n -z"),
    "paste": Options("-d~ --delimiters~ -s -z"),
    "fold": Options("-w~ --width~ -b -s"),
    "column": Options("-s~ -o~ -c~ -N~ -t -x --separator~ --output-separator~ --table"),
    "tr": ANY,
    "stat": Options("-c~ --format~ --printf~ -f -L -t"),
    "wc": refusing("--files0-from"),
    "du": refusing(
        "--files0-from -X --exclude-from",
        """-d~ --max-depth~ -t~ --threshold~ --exclude~ --time --time-style~ -B~ --block-size~ -a -b -c -h -k -l -L
        -m -s -S -x""",
    ),
    "diff": refusing(
        "-l --paginate",
        """-U~ -C~ --unified -L~ --label~ -I~ --ignore-matching-lines~ -x~ --exclude~ -W~ --width~ -X= --color -u -c
        -r -N -q -s -y -i -w -b -B -a -e -n -p -t -T -E -Z --recursive --brief --new-file --side-by-side
        --no-dereference""",
    ),
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum", "sha512sum"), Options(_HASH)),
    "jq": refusing(
        "-f --from-file -L --library-path",
        """-r -j -a -s -n -c -C -M -S -e -R -h -V --raw-output --join-output --ascii-output --slurp --null-input --tab
        --compact-output --color-output --monochrome-output --sort-keys --exit-status --raw-input --stream --seq
        --indent~ --unbuffered --version""",
    ),
    "sort": refusing(
        "-o --output --compress-program -T --temporary-directory --files0-from",
        """-k~ -t~ -S~ --key~ --field-separator~ --buffer-size~ --parallel~ --sort~ -b -d -f -g -i -M -h -n -R -r -V
        -c -C -m -s -u -z""",
    ),
    "rg": refusing(
        "--pre --hostname-bin -z --search-zip",
        """-A~ -B~ -C~ -m~ -g~ -t~ -T~ -j~ -M~ -r~ -E~ -e~ -f= -d~ --regexp~ --file= --glob~ --iglob~ --type~
        --type-not~ --type-add~ --max-count~ --max-depth~ --max-columns~ --max-filesize~ --threads~ --replace~
        --encoding~ --sort~ --sortr~ --context~ --after-context~ --before-context~ --color~ --colors~ --ignore-file=
        --context-separator~ --engine~ --path-separator~ -a -c -F -h -H -i -I -l -L -n -N -o -0 -p -P -q -s -S -u -U
        -v -w -x -V -b -. --files --files-with-matches --files-without-match --count --count-matches --fixed-strings
        --hidden --no-ignore --ignore-case --smart-case --case-sensitive --line-number --no-line-number --no-heading
        --heading --json --stats --multiline --multiline-dotall --only-matching --pcre2 --quiet --vimgrep
        --with-filename --no-filename --version --follow --no-messages --trim --type-list --unrestricted
        --word-regexp --line-regexp --invert-match --text --no-ignore-vcs --no-config --column --pretty --null
        --passthru --debug""",
    ),
    "tree": refusing(
        "-o --fromfile --fromtabfile --filesfrom --info --gitfile --infofile",
        "-L~ -I~ -P~ -a -d -f -i -l -x -C -n -p -s -h -u -g -D -F -r -t",
    ),
    "file": refusing(
        "-C --compile -m --magic-file -f --files-from -z -Z --uncompress --uncompress-noreport",
        "-F~ -e~ -P~ -b -i -k -L -h -N -r -s",
    ),
    "date": closed(
        """-u --utc --universal -I? --iso-8601 -R --rfc-email --rfc-2822 --rfc-3339~ -d~ --date~ -r= --reference=
        --version"""
    ),
    "find": closed(
        """-name~ -iname~ -path~ -ipath~ -wholename~ -iwholename~ -lname~ -ilname~ -regex~ -iregex~ -regextype~
        -type~ -xtype~ -size~ -empty -newer= -anewer= -cnewer= -newermt~ -newerat~ -newerct~ -samefile= -mtime~
        -mmin~ -atime~ -amin~ -ctime~ -cmin~ -perm~ -user~ -group~ -uid~ -gid~ -maxdepth~ -mindepth~ -depth -d -xdev
        -mount -prune -print -print0 -printf~ -ls -not -and -or -a -o -true -false -quit -links~ -inum~ -readable
        -writable -executable -follow -H -L -P -nouser -nogroup -daystart -noleaf -warn -nowarn -fstype~ -used~
        -ignore_readdir_race -noignore_readdir_race -version --version""",
        single_dash=True,
    ),
}
"""Programs that write nothing by themselves."""

_COPY = """-a -b -d -f -i -H -l -L -n -p -P -r -R -s -t= -T -u -v -x -Z --archive --force --interactive --recursive
    --dereference --no-dereference --no-clobber --update --verbose --target-directory= --no-target-directory
    --backup --parents --preserve --no-preserve~ --link --symbolic-link --one-file-system --sparse~ --reflink --debug
    --attributes-only --remove-destination --strip-trailing-slashes --no-copy --exchange"""
_PYTEST = """-q -v -x -s -l -k~ -m~ -r~ -n~ -W~ -V -h --maxfail~ --tb~ --lf --ff --nf --sw --last-failed
    --failed-first --new-first --stepwise --stepwise-skip --sw-skip --durations~ --durations-min~ --co
    --collect-only --no-header --no-summary --numprocesses~ --dist~ --cov --no-cov --cov-report= --cov-branch
    --cov-fail-under~ --cov-append --timeout~ --deselect= --ignore= --ignore-glob~ --showlocals --no-showlocals
    --full-trace --capture~ --color~ --strict-markers --strict-config --strict --disable-warnings
    --disable-pytest-warnings --cache-clear --cache-show --fixtures --markers --version --help --junitxml=
    --junit-xml= --junit-prefix~ --import-mode~ --asyncio-mode~ --runxfail --setup-show --setup-only --setup-plan
    --verbose --quiet --exitfirst --show-capture~ --verbosity~ --log-level~ --log-cli-level~ --log-file=
    --log-file-level~ --randomly-seed~ --reruns~ --doctest-modules --snapshot-update --hypothesis-seed~
    --hypothesis-show-statistics --basetemp= --benchmark-only --benchmark-skip --benchmark-disable --forked
    --no-cov-on-fail --keep-duplicates --maxprocesses~ --code-highlight~ --no-fold-skipped"""
_RUFF = """-q -v -s -e -n -w --fix --no-fix --fix-only --unsafe-fixes --no-unsafe-fixes --diff --watch --select~
    --ignore~ --extend-select~ --extend-ignore~ --per-file-ignores~ --fixable~ --unfixable~ --exclude~
    --extend-exclude~ --silent --line-length~ --target-version~ --output-format~ --output-file= -o= --statistics
    --show-files --show-settings --show-fixes --no-cache --cache-dir= --exit-zero --exit-non-zero-on-fix --preview
    --no-preview --isolated --add-noqa --respect-gitignore --no-respect-gitignore --force-exclude --quiet --verbose
    --check --range~ --color~ --all --stdin-filename="""
_NPM = """--save-dev -D --save -S -E --save-exact --no-save --save-optional -O --legacy-peer-deps --force -f
    --no-audit --no-fund --prefer-offline --offline --omit~ --include~ --production --only~ --ignore-scripts
    --dry-run --silent -s --quiet -q --verbose -d --loglevel~ --no-progress --package-lock-only --no-package-lock
    --workspace= -w= --workspaces --if-present --json --no-optional --include-workspace-root --depth~ --long -l
    --all -a --prod --dev --parseable -p --audit-level~ -y --yes --engine-strict"""
_NPM_RUN = "--silent -s --if-present --workspace= -w= --workspaces --ignore-scripts --loglevel~ --quiet -q"
_PIP_INSTALL = """-r= --requirement= -e= --editable= -c= --constraint= -U --upgrade -q --quiet -v --verbose
    --no-deps --user --pre --no-cache-dir --disable-pip-version-check --dry-run --force-reinstall
    --no-build-isolation --no-input --break-system-packages --upgrade-strategy~ --progress-bar~ --ignore-installed
    -I --only-binary~ --prefer-binary --use-pep517 --root-user-action~ --no-compile --no-warn-script-location
    --exists-action~"""
PIP = {
    "install": _PIP_INSTALL,
    "list": """-o --outdated -u --uptodate --format~ --not-required -l --local --user -e --editable -v -q --pre
        --exclude~""",
    "show": "-f --files -v --verbose -q",
    "freeze": "-l --local --user --all --exclude~ --exclude-editable -q",
    "check": "-q -v",
    "uninstall": "-y --yes -r= --requirement= -q -v --break-system-packages",
}
_CARGO = """-q -v --quiet --verbose --offline --locked --frozen --release -r --all --workspace --all-targets
    --all-features --no-default-features --features~ -F~ -p~ --package~ --bin~ --bins --lib --test~ --tests
    --example~ --examples --bench~ --benches --no-run --no-fail-fast --target= -j~ --jobs~ --message-format~
    --profile~ --exclude~ --doc --keep-going --manifest-path= --target-dir= --no-deps --color~
    --future-incompat-report --timings --ignore-rust-version"""
_GO = """-v -x -n -a -race -msan -p~ -tags~ -mod~ -trimpath -buildvcs~ -cover -covermode~ -coverpkg~ -coverprofile= -o=
    -run~ -skip~ -count~ -short -timeout~ -bench~ -benchmem -benchtime~ -failfast -json -parallel~ -cpu~ -shuffle~ -vet~
    -list~ -c -fullpath -work"""
_UV = """--frozen --locked --all-extras --extra~ --no-extra~ --group~ --no-group~ --only-group~ --dev --no-dev
    --only-dev --all-groups --all-packages --package~ --upgrade -U --upgrade-package~ -P~ --no-install-project
    --inexact --exact --no-install-workspace --quiet -q --verbose -v --reinstall --offline --no-progress --no-cache
    -n --prerelease~ --resolution~ --active --dry-run --check --no-build --color~ --no-sync --no-editable
    --refresh"""
UV = {
    "sync": _UV,
    "lock": _UV,
    "add": f"{_UV} --optional~ --bounds~ -r= --requirements= -c= --constraints= --raw",
    "remove": f"{_UV} --optional~",
    "tree": f"{_UV} --depth~ -d~ --prune~ --invert --outdated --no-dedupe --universal",
    "venv": """--seed --clear -c --allow-existing -q --quiet -v --verbose --prompt~ --system-site-packages --offline
        --no-project""",
    "version": "--short --bump~ --dry-run --output-format~ --frozen --no-sync",
    "init": "--lib --app --package --no-package --name~ --no-readme --bare -q --quiet --no-workspace --description~",
    "build": "--wheel --sdist -o= --out-dir= -q --quiet --all-packages --package~ --no-sources --offline",
    "export": f"{_UV} -o= --output-file= --format~ --no-hashes --no-header --no-annotate --no-emit-project",
}
UV_RUN = """--frozen --no-sync --locked -q --quiet -v --verbose --all-extras --extra~ --no-extra~ --group~
    --no-group~ --only-group~ --dev --no-dev --all-groups --package~ --isolated --exact --offline --no-project
    --active --no-progress"""
COVERAGE = {
    "report": """-m --show-missing -i --include~ --omit~ --fail-under~ --skip-covered --no-skip-covered --skip-empty
        --precision~ --sort~ -q --format~ --data-file=""",
    "html": """-d= --directory= -i --include~ --omit~ --fail-under~ --skip-covered --skip-empty --precision~ -q
        --title~ --show-contexts --data-file=""",
    "xml": "-o= -i --include~ --omit~ --fail-under~ --skip-empty -q --data-file=",
    "json": "-o= -i --include~ --omit~ --fail-under~ --pretty-print --show-contexts -q --data-file=",
    "lcov": "-o= -i --include~ --omit~ --fail-under~ -q --data-file=",
    "erase": "--data-file=",
    "combine": "-a --append --keep -q --data-file=",
}
COVERAGE_RUN = "-a --append --branch --source~ --include~ --omit~ -p --parallel-mode --data-file= --timid -L --pylib"

WORKING: dict[str, Options] = {
    "mkdir": Options("-m~ --mode~ -p -v"),
    "touch": Options("-d~ --date~ -t~ -r= --reference= -a -c -m -h"),
    "rmdir": ANY,
    "tee": ANY,
    "uniq": Options("-f~ -s~ -w~ --skip-fields~ --skip-chars~ --check-chars~ -c -d -D -i -u -z"),
    "cp": closed(_COPY),
    "mv": closed(_COPY),
    "chmod": closed("-R -v -c -f --recursive --verbose --changes --silent --quiet"),
    "tar": closed(
        """-c -t -v -z -j -J -a -f= -C= -p -k --create --list --verbose --gzip --bzip2 --xz --zstd --file= --directory=
        --exclude~ --exclude-vcs --auto-compress --sort~ --mtime~ --owner~ --group~ --numeric-owner --no-recursion
        --wildcards --strip-components~ --totals"""
    ),
    "tsc": closed(
        """-p= --project= --noEmit --watch -w -b --build --strict --target~ --module~ --outDir= --outFile=
        --declaration --sourceMap --skipLibCheck --esModuleInterop --jsx~ --lib~ --pretty --version -v --init
        --listFiles --showConfig --incremental --tsBuildInfoFile= --rootDir= --baseUrl= --moduleResolution~
        --allowJs --checkJs --diagnostics --emitDeclarationOnly --declarationDir= --noEmitOnError
        --extendedDiagnostics --types~ --resolveJsonModule --isolatedModules --explainFiles --traceResolution
        --noUnused* --noImplicit* --strict* --force -f --clean --dry -d --composite --verbose --help -h
        --listEmittedFiles --noErrorTruncation --preserveWatchOutput"""
    ),
    "esbuild": closed(
        """--bundle --minify --outfile= --outdir= --outbase= --platform~ --format~ --target~ --sourcemap --watch
        --splitting --metafile= --log-level~ --tree-shaking~ --jsx~ --analyze --packages~ --allow-overwrite
        --version --global-name~ --entry-names~ --chunk-names~ --asset-names~ --external:* --define:* --loader:*
        --minify-* --keep-names --charset~ --conditions~ --main-fields~ --tsconfig= --legal-comments~ --drop:*
        --color~ --jsx-*"""
    ),
    "vite": Options(
        commands=dict.fromkeys(
            ("build", "dev", "serve", "preview", "optimize", ""),
            """--outDir= --mode~ -m~ --port~ --host --emptyOutDir --sourcemap --minify --ssr --watch -w --base~ -l~
            --logLevel~ --clearScreen --assetsDir= --manifest --force --strictPort --version -v --target~
            --assetsInlineLimit~""",
        )
    ),
    "jest": closed(
        """--watch --watchAll --coverage --ci -t~ --testNamePattern~ --testPathPattern~ --testPathPatterns~
        --runInBand -i --verbose --silent --bail -b --updateSnapshot -u --onlyChanged -o --findRelatedTests
        --passWithNoTests --maxWorkers~ -w~ --detectOpenHandles --forceExit --no-cache --json --outputFile=
        --listTests --collectCoverageFrom~ --coverageDirectory= --errorOnDeprecated --logHeapUsage --noStackTrace
        --showConfig --shard~ --testTimeout~ --color --colors --no-color --no-coverage --version --clearCache
        --onlyFailures -f --testPathIgnorePatterns~ --selectProjects~ --no-watchman --randomize --seed~"""
    ),
    "vitest": closed(
        """--run --coverage --reporter= --watch --no-watch -w -t~ --testNamePattern~ -u --update --bail~ --silent
        --passWithNoTests --globals --typecheck --project~ --retry~ --testTimeout~ --hideSkippedTests --maxWorkers~
        --no-color --version -v --changed --shard~ --outputFile= --no-coverage --coverage.enabled
        --coverage.reporter~ --no-file-parallelism --allowOnly --dangerouslyIgnoreUnhandledErrors --logHeapUsage
        --sequence.shuffle"""
    ),
    "playwright": Options(
        commands={
            "test": """--headed --project~ -g~ --grep~ --grep-invert~ --reporter= --workers~ -j~ --retries~
                --timeout~ -x --max-failures~ --list --update-snapshots -u --forbid-only --fully-parallel
                --repeat-each~ --shard~ --trace~ --output= --pass-with-no-tests --quiet --last-failed --only-changed
                --global-timeout~ --no-deps""",
            "install": "--dry-run --list --force --only-shell --no-shell",
        },
        bare=names("--version -V --help"),
    ),
    "eslint": closed(
        """--fix --fix-dry-run --fix-type~ --ext~ --quiet --max-warnings~ --cache --cache-location=
        --cache-strategy~ -f= --format= -o= --output-file= --ignore-pattern~ --no-ignore
        --report-unused-disable-directives --color --no-color --debug --env-info --version -v --no-inline-config
        --no-error-on-unmatched-pattern --pass-on-no-patterns --stats --print-config= --rule~ --global~ --env~
        --no-eslintrc --no-warn-ignored --no-cache --exit-on-fatal-error -h --help"""
    ),
    "prettier": closed(
        """--check -c --write -w --list-different -l --print-width~ --tab-width~ --use-tabs --no-semi --single-quote
        --jsx-single-quote --trailing-comma~ --log-level~ --loglevel~ --no-config --ignore-unknown -u --cache
        --cache-location= --cache-strategy~ --end-of-line~ --prose-wrap~ --arrow-parens~ --no-error-on-unmatched-pattern
        --version --color --no-color --stdin-filepath= --bracket-same-line --no-bracket-spacing --quote-props~
        --no-editorconfig --with-node-modules"""
    ),
    "pytest": closed(_PYTEST),
    "ruff": Options(
        commands={"check": _RUFF, "format": _RUFF, "rule": _RUFF, "version": _RUFF, "clean": _RUFF, "linter": _RUFF},
        bare=names("--version -V --help"),
    ),
    "black": closed(
        """--check --diff -q -v --quiet --verbose -l~ --line-length~ -t~ --target-version~ -S
        --skip-string-normalization -C --skip-magic-trailing-comma --fast --safe --exclude~ --include~
        --extend-exclude~ --force-exclude~ --preview --pyi --ipynb --color --no-color --workers~ -W~ --version
        --unstable --no-cache --line-ranges~"""
    ),
    "isort": closed(
        """--check --check-only -c --diff --profile~ -l~ --line-length~ -q -v --quiet --verbose --skip~ -s~
        --skip-glob~ --sg~ --float-to-top --atomic --gitignore --skip-gitignore --src= --version -V --color -m~
        --multi-line~ --tc --trailing-comma --py~ --python-version~ --ac --combine-as --ca -p~ --project~ -j~
        --jobs~ --only-modified --om"""
    ),
    "flake8": closed(
        """--max-line-length~ --ignore~ --select~ --extend-ignore~ --extend-select~ --exclude~ --extend-exclude~
        --statistics --count --show-source -v -q --verbose --quiet --max-complexity~ --format~ --per-file-ignores~
        -j~ --jobs~ --version --output-file= --tee --exit-zero --isolated --max-doc-length~ --doctests --color~
        --filename~"""
    ),
    "tox": closed(
        """-e~ --env~ -q -v -r --recreate -l -a -p~ --parallel --notest --skip-missing-interpreters --version -f~
        -s~ -m~ -o"""
    ),
    "nox": closed(
        """-s~ --session~ --sessions~ -e~ -l --list --list-sessions -r -R -k~ --keywords~ -t~ --tags~ -v --verbose
        --reuse-existing-virtualenvs --no-reuse-existing-virtualenvs -x --stop-on-first-error --no-install --version
        --error-on-missing-interpreters --non-interactive"""
    ),
    "mypy": closed(
        """--strict --ignore-missing-imports --no-error-summary --pretty --no-pretty --no-incremental
        --python-version~ --platform~ --exclude~ -p~ -m~ --package~ --module~ --namespace-packages
        --no-namespace-packages -v --verbose -V --version --explicit-package-bases --follow-imports~
        --disable-error-code~ --enable-error-code~ --junit-xml= --cache-dir= --txt-report= --html-report=
        --no-color-output --color-output --show-* --hide-* --warn-* --no-warn-* --disallow-* --allow-*
        --check-untyped-defs --strict-* --no-strict-* --no-implicit-* --implicit-* --no-site-packages --skip-*
        --no-silence-site-packages --local-partial-types --scripts-are-modules --output~ --always-true~
        --always-false~ --extra-checks --sqlite-cache --fast-module-lookup --error-summary --exclude-gitignore"""
    ),
    "pyright": closed(
        """-p= --project= --outputjson --warnings --stats --verbose --level~ --lib --dependencies --pythonversion~
        --pythonplatform~ --skipunannotated --threads --version -w --watch -h --help"""
    ),
    "pylint": closed(
        """-E --errors-only --disable~ --enable~ -d~ -e~ -f~ --output-format~ -r~ --reports~ -s~ --score~ -j~
        --jobs~ -v --fail-under~ --fail-on~ --ignore~ --ignore-paths~ --ignore-patterns~ --max-line-length~
        --py-version~ --recursive~ --version --exit-zero --msg-template~ --list-msgs --good-names~ --max-args~
        --rcversion~ --verbose"""
    ),
    "git": Options(commands=git.COMMANDS, bare=names("--version -v --help -h")),
    "npm": Options(
        commands={
            **dict.fromkeys(
                names("""install i ci ls list outdated view info audit update up uninstall un prune dedupe explain why
                root bin prefix version add fund doctor"""),
                _NPM,
            ),
            **dict.fromkeys(("test", "t", "run", "run-script", "start", "stop"), _NPM_RUN),
            "init": "-y --yes",
        },
        bare=names("--version -v"),
    ),
    **dict.fromkeys(("pip", "pip3"), Options(commands=PIP, bare=names("--version -V --help"))),
    "go": Options(
        commands={
            **dict.fromkeys(("build", "test", "run", "vet", "list"), _GO),
            "list": f"{_GO} -m -f~ -e -deps -test -u -versions",
            "fmt": "-n -x -mod~",
            "version": "-m -v",
            "env": "-json -changed",
            "doc": "-all -c -cmd -short -src -u",
            "mod": "-v -x -go~ -json -e -compat~ -m -vendor -diff",
        },
        single_dash=True,
    ),
    "make": closed(
        """-j? -C= --directory= -f= --file= --makefile= -s --silent --quiet -k --keep-going -B --always-make -n
        --dry-run --just-print -i --ignore-errors -w -S --print-directory --no-print-directory --jobs -q --question
        -l? -O? -p -r -R --version -v -d --trace --output-sync --warn-undefined-variables -h --help"""
    ),
    "cargo": Options(
        commands={
            **dict.fromkeys(
                names("""build b check c test t run r bench doc d clippy fetch tree metadata update generate-lockfile
                clean version verify-project pkgid locate-project nextest"""),
                f"""{_CARGO} --depth~ -i~ --invert~ -e~ --edges~ --prefix~ --no-dedupe --format-version~
                --filter-platform~ --fix --allow-dirty --allow-staged --precise~ --aggressive
                --document-private-items""",
            ),
            "fmt": f"{_CARGO} --check",
            "add": f"{_CARGO} --dev -D --build -B --optional --no-optional --rename~ --path= --dry-run -n",
            "remove": f"{_CARGO} --dev -D --build -B --dry-run -n",
            **dict.fromkeys(("new", "init"), f"{_CARGO} --edition~ --name~ --vcs~"),
        },
        bare=names("--version -V"),
    ),
    # These run what they are given; `programs` looks at what that is.
    **dict.fromkeys(names("node npx python python3 uv coverage sed env nice nohup stdbuf timeout"), ANY),
}
"""Programs that write files or run a project's code."""

PROGRAMS: dict[str, Options] = LOOKING | WORKING

HARMLESS = frozenset({"pwd", "ls", "echo", "printf", "true", "false", "test", "[", ":", "cd"})
"""What a readonly session may still run."""

NODE_PROGRAMS = names("tsc esbuild vite jest vitest playwright eslint prettier")

PYTHON_MODULES: dict[str, str] = {
    "unittest": "-v -q -f -c -b -k~ -s= -p~ -t= --verbose --quiet --failfast --catch --buffer --locals --durations~",
    "venv": "--clear --upgrade --upgrade-deps --system-site-packages --without-pip --prompt~ --copies --symlinks",
    "compileall": "-q -f -l -j~ -x~ -b",
    "py_compile": "-q",
    "json.tool": "--sort-keys --indent~ --compact --no-ensure-ascii --json-lines --no-indent --tab",
    "this": "",
}
"""Modules that `python -m` may run and that are no programs of their own, with their closed tables."""
PROGRAM_MODULES = names("pytest pip ruff black mypy isort flake8 pylint coverage")

RESPONSE_FILES = names("pytest mypy ruff tsc esbuild pylint black isort flake8 pyright")
"""Programs that read further options from the file of an operand `@file`."""
