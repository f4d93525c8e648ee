# AdderClaw in a container. compose.yaml starts it with limits and without a way out; see docs/deployment.md.
FROM python:3.12-slim-bookworm AS build
RUN pip install --no-cache-dir uv==0.13.7
WORKDIR /source
COPY pyproject.toml uv.lock README.md LICENSE ./
COPY scripts/find-python scripts/install-locked scripts/
COPY src src
RUN scripts/install-locked /opt/adderclaw

FROM python:3.12-slim-bookworm
# bash, git, ripgrep and bubblewrap are for the tools; the libraries are what a headless browser needs.
RUN apt-get update && apt-get install --yes --no-install-recommends \
      bash bubblewrap ca-certificates git ripgrep \
      fonts-liberation libasound2 libatk-bridge2.0-0 libatk1.0-0 libatspi2.0-0 libcairo2 libcups2 libdbus-1-3 libdrm2 \
      libgbm1 libglib2.0-0 libnspr4 libnss3 libpango-1.0-0 libx11-6 libxcb1 libxcomposite1 libxdamage1 libxext6 \
      libxfixes3 libxkbcommon0 libxrandr2 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/adderclaw /opt/adderclaw
RUN useradd --create-home --uid 1000 adderclaw && install --directory --owner=adderclaw /workspace /home/adderclaw/.adderclaw
# Most container engines let nobody make namespaces: then Landlock confines commands, and the container is the outer wall.
RUN printf '[sandbox]\naccept = "landlock"\n' > /home/adderclaw/.adderclaw/config.toml && chown adderclaw /home/adderclaw/.adderclaw/config.toml
ENV PATH=/opt/adderclaw/bin:$PATH ADDERCLAW_HOME=/home/adderclaw/.adderclaw
USER adderclaw
WORKDIR /workspace
VOLUME ["/workspace", "/home/adderclaw/.adderclaw"]
ENTRYPOINT ["adderclaw"]
CMD ["--help"]
