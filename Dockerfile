# The production program, static, for a user without rights.
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags="-s -w" -o /waypost ./cmd/waypost

# Alpine has the /tmp, and the wget of the health checks.
FROM alpine:3.23.3
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /usr/local/go/lib/time/zoneinfo.zip /usr/local/share/
COPY --from=build /waypost /usr/local/bin/
RUN mkdir -m 700 /var/lib/waypost && chown 65532:65532 /var/lib/waypost
ENV ZONEINFO=/usr/local/share/zoneinfo.zip WAYPOST_DATA_DIR=/var/lib/waypost
USER 65532:65532
ENTRYPOINT ["waypost"]
