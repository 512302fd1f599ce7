# The native module, to be mounted or copied into an image of Envoy. In the folder of a release:
#   docker build --file deploy/images/diana-module.Dockerfile --tag diana-module .
FROM scratch
ARG TARGETARCH=amd64
COPY linux-${TARGETARCH}/libdiana.so /libdiana.so
