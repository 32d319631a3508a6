package app

import (
	stdlog "log"
	"log/slog"
	"strings"
)

// adoptStandardLog has in log what libraries say through Go's standard logger.
func adoptStandardLog(log *slog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(standardLog{log})
}

// standardLog leaves out what libraries quote: net/http quotes what a receiver sends
// behind its answer, which may be anything, the message that it has got included.
type standardLog struct{ log *slog.Logger }

func (l standardLog) Write(line []byte) (int, error) {
	said, _, _ := strings.Cut(strings.TrimSpace(string(line)), `"`)
	l.log.Warn("a library has something to say", "text", strings.TrimSpace(said))
	return len(line), nil
}
