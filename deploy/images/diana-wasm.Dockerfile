# The filter for Istio and Envoy Gateway. In the folder of a release:
#   docker build --provenance=false --file deploy/images/diana-wasm.Dockerfile --tag diana-wasm .
FROM scratch
COPY diana.wasm /plugin.wasm
