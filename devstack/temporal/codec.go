package temporal

import (
	"errors"
	"net/http"
	"slices"

	"go.temporal.io/sdk/converter"
)

// maxCodecBody bounds a request to decode, in bytes: a page of history with payloads of
// 2 MiB each stays well below.
const maxCodecBody = 64 << 20

// NewCodec returns the endpoint at which the Web UI in the user's browser has encrypted
// payloads decoded. secret is the only segment of its path: it gives access to the payloads.
// A browser page of any other origin than these is refused.
func NewCodec(secret string, origins []string, codec converter.PayloadCodec) (http.Handler, error) {
	if secret == "" {
		return nil, errors.New("the codec endpoint needs a secret path")
	}
	prefix := "/" + secret
	mux := http.NewServeMux()
	payloads := converter.NewPayloadCodecHTTPHandler(codec)
	mux.Handle("POST "+prefix+"/decode", payloads)
	mux.Handle("POST "+prefix+"/encode", payloads)
	mux.HandleFunc("OPTIONS "+prefix+"/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return fromOrigins(origins, mux), nil
}

// fromOrigins answers browsers for the given origins only. Programs send no
// Origin; the secret path is what keeps them out.
func fromOrigins(origins []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Add("Vary", "Origin")
		if origin := r.Header.Get("Origin"); origin != "" {
			if !slices.Contains(origins, origin) {
				http.Error(w, "this origin is not the Web UI's", http.StatusForbidden)
				return
			}
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Allow-Methods", "POST")
			w.Header().Set("Access-Control-Allow-Headers", "Content-Type, X-Namespace, Authorization, Authorization-Extras, Caller-Type")
			w.Header().Set("Access-Control-Max-Age", "600")
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxCodecBody)
		next.ServeHTTP(w, r)
	})
}
