"""Packages that npx, uvx and their like may fetch and run: a closed list of exact names, each with plain words.

A name that is nearly one of them is another's package, so nothing is guessed. A package whose program has a table is
judged by it; of the others none runs the programs that its words name, and their words are held to a form of their own.
"""

import re

from adderclaw.gate.programs.allowlist import PROGRAMS, names, those
from adderclaw.gate.programs.objections import Ask, Objection, Words

_NODE = names(
    """@11ty/eleventy @angular/cli @apidevtools/swagger-cli @arethetypeswrong/cli @babel/cli @capacitor/assets
    @capacitor/cli @changesets/cli @commitlint/cli @cucumber/cucumber @electron-forge/cli @electron/asar
    @electron/packager @electron/rebuild @eslint/config-inspector @eslint/migrate-config @graphql-codegen/cli
    @ionic/cli @ladle/react @marp-team/marp-cli @mermaid-js/mermaid-cli @microsoft/api-extractor @napi-rs/cli
    @nestjs/cli @next/codemod @openapitools/openapi-generator-cli @react-native-community/cli @redocly/cli
    @remix-run/dev @rsbuild/core @rspack/cli @stoplight/spectral-cli @storybook/test-runner @stryker-mutator/core
    @svgr/cli @swc/cli @tailwindcss/upgrade @vercel/ncc @wdio/cli ai-elements ai-elements-vue alex all-contributors-cli
    api-extractor asar asc attw auto-changelog autoprefixer-cli babel backstopjs browserslist bundlesize cap changeset
    clean-css-cli cloc conventional-changelog-cli copyfiles cordova cost-of-modules cowsay cpx create-astro
    create-better-t-stack create-cloudflare create-docusaurus create-electron-app create-expo create-expo-app
    create-fastify create-gatsby create-hono create-ink-app create-keystone-app create-llama create-medusa-app
    create-next-app create-nuxt create-nuxt-app create-nx-workspace create-payload-app create-playwright create-preact
    create-qwik create-react-app create-react-native-app create-react-native-library create-react-router
    create-redwood-app create-remix create-rsbuild create-rspack create-sanity create-solid create-storybook
    create-strapi create-strapi-app create-svelte create-t3-app create-tauri-app create-turbo create-umi create-vite
    create-vue create-vuepress cspell csso-cli cucumber-js dependency-cruiser depcruise detox doctoc documentation
    docusaurus dprint electron electron-builder electron-packager electron-rebuild eleventy ember-cli envinfo expo
    expo-doctor gatsby gitignore graphql-codegen hexo histoire html-minifier html-minifier-terser html-validate
    htmlhint http-server jasmine jscodeshift jscpd jsdoc jsdoc-to-markdown jshint json-schema-to-typescript json-server
    json2ts js-yaml json5 karma kill-port knex license-checker lighthouse lint-staged live-server lockfile-lint
    markdown-link-check markdown-toc marked microbundle mkdirp mmdc msw ncc ncp ncu nest newman nightwatch node-gyp
    node-pg-migrate nodemon npm-check npm-check-updates nuxi nuxt openapi-typescript pa11y parcel pbjs pbts peggy
    pkgroll pod-install postcss postcss-cli publint purgecss pwa-asset-generator quicktype react-codemod react-email
    react-native react-router redoc-cli remark remark-cli remix reveal-md rimraf rsbuild rspack sass sb semver
    sequelize sequelize-cli serve shadcn shadcn-ui size-limit solhint sort-package-json source-map-explorer sirv-cli
    spectral standard stryker sv svelte-kit svelte-migrate svgo swagger-cli syncpack tap tape terser test-storybook
    testcafe textlint tree-sitter tree-sitter-cli ts-json-schema-generator ts-node-dev ts-prune ts-standard ts-to-zod
    tsc-alias tslint typedoc typeorm typescript-json-schema uglify-js unbuild unimported update-browserslist-db uvu
    vinxi vite-bundle-visualizer vitepress vsce @vscode/vsce vuepress wait-on waku wasm-pack wdio
    webpack-bundle-analyzer xo zenstack"""
)
_NODE_TABLES = {
    "@biomejs/biome": "biome",
    "@playwright/test": "playwright",
    "@tailwindcss/cli": "tailwindcss",
    "@vue/cli-service": "vue-cli-service",
    "@storybook/cli": "storybook",
    "markdownlint-cli": "markdownlint",
    "markdownlint-cli2": "markdownlint",
    "webpack-cli": "webpack",
}
_PYTHON = names(
    """auditwheel autoflake basedpyright bump-my-version bumpversion check-jsonschema check-wheel-contents commitizen
    datamodel-code-generator datamodel-codegen deptry detect-secrets djlint doc8 docformatter flynt gitlint
    import-linter interrogate jupytext licensecheck lint-imports maturin mdformat migrate-to-uv nbqa nbstripout
    openapi-python-client pip-licenses pipdeptree proselint pyclean pydocstyle pyproject-fmt pyroma radon refurb reuse
    rumdl slotscheck sphinx-lint sqlfluff ssort tach taplo toml-sort towncrier ty usort validate-pyproject xenon
    zizmor"""
)
_INITIALIZERS = names(
    """@eslint/config @quick-start/electron @vitejs/app astro better-t-stack cloudflare docusaurus electron-app expo
    expo-app fastify gatsby hono keystone-app llama medusa-app next-app nuxt nuxt-app nx-workspace payload-app
    playwright preact qwik react-app react-native-library react-router redwood-app remix rsbuild rspack sanity solid
    storybook strapi strapi-app svelte t3-app tauri-app turbo umi vite vue vuepress"""
)
"""What `npm create x` takes: it runs the package create-x, or @scope/create-x."""
_VERSION = r"@(?:latest|next|canary|beta|alpha|rc|\^?~?v?\d+(?:\.(?:\d+|x))*(?:-[a-z]+(?:\.?\d+)*)?)"


def unversioned(package: str) -> str:
    """A package's name without a version, where it has a plain one."""
    return re.sub(rf"(?<=.){_VERSION}$", "", package, flags=re.ASCII)


def program(package: str) -> str:
    """The program that a package is known by."""
    name = unversioned(package)
    return _NODE_TABLES.get(name, name)


def node(words: Words, ask: Ask, *, fetched: bool, how: str) -> Objection | None:
    """What is said of a package of npm's, with the words for it; `fetched`, if it is not taken from the project."""
    name = program(words[0]) if words else ""
    fetched = fetched or unversioned(words[0]) != words[0] if words else fetched
    if fetched and name in PROGRAMS["npx"].elsewhere:
        return Objection(f"{name} is the program of a package of another name")
    if name in those("npx") | those("by_npx"):
        return ask.inner((name, *words[1:]))
    if name in _NODE:
        return plain_words(name, words[1:])
    return Objection(f"{how} can download and run any package", f"{how} {words[0]}" if words else "")


def python(words: Words, ask: Ask, *, how: str) -> Objection | None:
    name = unversioned(words[0]) if words else ""
    if name in those("module") | those("by_uvx"):
        return ask.inner((name, *words[1:]))
    if name in _PYTHON:
        return plain_words(name, words[1:])
    return Objection(f"{how} can download and run any package", f"{how} {words[0]}" if words else "")


def initializer(words: Words) -> Objection | None:
    """`npm create vite@latest app -- --template react-ts`: what makes a new project in a folder of this one."""
    if unversioned(words[0]) not in _INITIALIZERS:
        return Objection(f"{words[0]} is a package that is downloaded and run")
    return plain_words(words[0], tuple(word for word in words[1:] if word != "--"))


_HERE = r"https?://(?:localhost|127\.0\.0\.1)(?::\d+)?(?:/[\w./-]*)?"
_VALUE = r"(?!.*\.\.(?:/|$))(?![/~])(?!.*(?:://|git@|github:|gitlab:|file:))[\w@.,:/+*-]*"
_ACTS = (
    r"(?i)(?:no-)?(?:(?:re)?deploy|(?:un)?publish|login|logout|token|auth|exec|execute|eval|shell|scripts?|script-shell"
    r"|command|cmd|hooks?|on-?success|on-?exit|editor|global|registry|upload|push|destroy|delete|release|link|ssh|secrets?"
    r"|preload|require|import|loader|plugin|plugins|env-?file|cwd|prefix|open)"
)


def plain_words(name: str, words: Words) -> Objection | None:
    """Words that name places of the workspace, settings and tasks; none runs, sends or installs anything elsewhere."""
    for index, word in enumerate(words):
        option = re.fullmatch(rf"--?([A-Za-z][\w.-]*)(?:=({_VALUE}|{_HERE}))?", word, re.ASCII)
        if option is None and not re.fullmatch(rf"(?!-)(?:{_VALUE}|{_HERE})", word, re.ASCII):
            return Objection(f"{name} with {word!r}, which is not a plain word")
        if (option or index == 0) and re.fullmatch(_ACTS, option[1] if option else word.split(":", 1)[0]):
            return Objection(f"{name} {word} may act beyond the workspace")
        if option and option[1] in ("e", "x", "g"):
            return Objection(f"{name} {word} may run something")
    deletes = name in ("rimraf", "del-cli") and any(re.fullmatch(r"[./*]*", word) for word in words)
    return Objection("it would delete everything") if deletes else None
