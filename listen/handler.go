package listen

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// maxAhead is how much of a chunked body is read before it is answered, in bytes.
const maxAhead = 64 << 10

// refusing answers 400 where the chunks of a body are malformed, before next has seen the request. Behind maxAhead,
// whoever reads the body gets the error, and the connection is closed.
func refusing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 && r.ProtoMajor == 1 {
			ahead, err := io.ReadAll(io.LimitReader(r.Body, maxAhead))
			if err != nil {
				text := "the body did not arrive completely"
				if fault := new(Fault); errors.As(err, &fault) {
					text = fault.Text
				}
				w.Header().Set("Connection", "close")
				http.Error(w, text, http.StatusBadRequest)
				return
			}
			r.Body = bodyAhead{io.MultiReader(bytes.NewReader(ahead), r.Body), r.Body}
		}
		next.ServeHTTP(w, r)
	})
}

// bodyAhead is a body whose beginning was read.
type bodyAhead struct {
	io.Reader
	io.Closer
}
