package app

import (
	stdlog "log"
	"log/slog"
	"strings"
)

// adoptStandardLog sends to log what libraries write with Go's standard logger.
func adoptStandardLog(log *slog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(standardLog{log})
}

// standardLog cuts texts at the first quotation mark: net/http quotes bytes that a receiver
// sends after its answer, which may hold the message and so personal data.
type standardLog struct{ log *slog.Logger }

func (l standardLog) Write(line []byte) (int, error) {
	said, _, _ := strings.Cut(strings.TrimSpace(string(line)), `"`)
	l.log.Warn("a library has something to say", "text", strings.TrimSpace(said))
	return len(line), nil
}
