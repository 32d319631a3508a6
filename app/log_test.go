package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestStandardLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := standardLog{slog.New(slog.NewTextHandler(&out, nil))}
	line := "Unsolicited response received on idle HTTP channel starting with \"HTTP/1.1 200 \\\"Ada Lovelace\\\"\"; err=<nil>\n"
	if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got := out.String(); !strings.Contains(got, `level=WARN`) || !strings.HasSuffix(got, "text=\"Unsolicited response received on idle HTTP channel starting with\"\n") {
		t.Errorf("logged %s", got)
	}
}
