# fastkernels in a container, without its sources and its build tools.
#
#   docker build -t fastkernels .
#   docker run --rm -v "$PWD:/project" fastkernels kernels --target rms_norm     # candidates in ./tasks/candidate
#
# With CUDA, for NVIDIA GPUs (docker run --gpus all ...):
#
#   docker build -t fastkernels:cuda --build-arg PRESET=cuda-release \
#     --build-arg BASE=nvidia/cuda:12.8.1-devel-ubuntu24.04 .
ARG BASE=debian:12

FROM ${BASE} AS build
ARG PRESET=cpu-release
RUN apt-get update && apt-get install --yes --no-install-recommends make ca-certificates
WORKDIR /source
# A separate layer, so that a change of the sources does not install everything again.
COPY tools/install_deps.sh tools/
RUN tools/install_deps.sh build
COPY . .
RUN make dist PRESET=${PRESET}
RUN mkdir /installed && tar -xzf build/fastkernels-*.tar.gz -C /installed --strip-components=1

# The compiler stays: candidates are compiled where they are judged.
FROM ${BASE}
RUN apt-get update && apt-get install --yes --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /installed /usr/local
# Where the folder with the candidates is mounted; results and history are written there too.
WORKDIR /project
ENV FASTKERNELS_HOME=/project/.fastkernels
ENTRYPOINT ["fastkernels"]
CMD ["--help"]
