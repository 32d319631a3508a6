package webhook

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkSend has 64 senders for each core call one local receiver, as batches
// of one webhook do. Receiver and senders share the machine.
func BenchmarkSend(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(rw, `{"succeed":true,"message":"received"}`)
	}))
	b.Cleanup(srv.Close)
	s := newSender(b)
	w := hook(srv.URL)
	body := []byte(`{"messageId":"msg_1","params":{"text":"` + strings.Repeat("x", 550) + `"}}`)
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if o := s.Send(context.Background(), w, "msg_1", body); !o.Succeed {
				b.Errorf("outcome %+v", o)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "POST/s")
}
