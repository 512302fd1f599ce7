# The command. In the folder of a release:
#   docker build --file deploy/images/diana.Dockerfile --tag diana .
#   docker run --rm --volume "$PWD:/work" --workdir /work diana check envoy.yaml
FROM scratch
ARG TARGETARCH=amd64
COPY linux-${TARGETARCH}/diana /diana
USER 65532:65532
ENTRYPOINT ["/diana"]
