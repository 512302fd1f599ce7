# Envoy with the native module and the filter; it needs no file of a release:
#   docker build --file deploy/images/diana-envoy.Dockerfile --tag diana-envoy .
FROM envoyproxy/envoy:v1.40.0
COPY --from=ghcr.io/diana-limiter/diana-module:0.2.0 /libdiana.so /usr/local/lib/diana/libdiana.so
COPY --from=ghcr.io/diana-limiter/diana-wasm:0.2.0 /plugin.wasm /usr/local/lib/diana/diana.wasm
ENV ENVOY_DYNAMIC_MODULES_SEARCH_PATH=/usr/local/lib/diana
