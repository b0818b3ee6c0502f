# The image of the docker sandbox, and of the sandbox as a service: `make image`. docs/service.md tells of both.
# With other extras, the image of a batch's workers: docs/service.md.
ARG BASE=python:3.11-slim

FROM ${BASE} AS build
ARG EXTRAS=service
WORKDIR /src
COPY pyproject.toml .
RUN python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
    print(*p['dependencies'], \
    *(each for extra in '${EXTRAS}'.split(',') for each in p['optional-dependencies'][extra]), sep='\\n')" > requirements.txt \
 && python -m pip install --quiet --no-cache-dir --prefix=/install -r requirements.txt
COPY . .
RUN python -m pip install --quiet --no-cache-dir --no-deps --prefix=/install .

FROM ${BASE}
COPY --from=build /install /usr/local
# Two names that hold in every version of Python, and compiled forms of all that is loaded before a program runs.
# What runs inside lies at its name itself: a program may follow no link, and `inspect` asks where its sources are.
WORKDIR /opt/atc
RUN python -c "import os, sysconfig; os.symlink(sysconfig.get_path('purelib'), 'packages')" \
 && python -c "import os, shutil; shutil.move('packages/atc/sandbox', 'sandbox'); \
    os.symlink('/opt/atc/sandbox', 'packages/atc/sandbox')" \
 && python -I -S -c "import sys; sys.path.insert(0, '/opt/atc/sandbox'); import inside, jail, preload, run; preload.standard_library()"
USER 10001:10001
WORKDIR /
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 ATC_SERVE_HOST=0.0.0.0
EXPOSE 8700
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python", "-I", "-c", \
    "import os, urllib.request as u; u.urlopen(f'http://127.0.0.1:{os.environ.get(\"ATC_SERVE_PORT\", 8700)}/healthz', timeout=2)"]
CMD ["atc", "sandbox", "serve"]
