package stack

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"waypost/config"
)

// newLog logs to the file and, from warnings on, to errOut as well.
func newLog(cfg config.Log, file, errOut io.Writer) *slog.Logger {
	log := cfg.Logger(file)
	if errOut == nil {
		return log
	}
	shown := cfg
	shown.Level = max(cfg.Level, slog.LevelWarn)
	return slog.New(both{log.Handler(), shown.Logger(errOut).Handler()})
}

// both passes each record on to two handlers.
type both struct{ a, b slog.Handler }

func (h both) Enabled(ctx context.Context, level slog.Level) bool {
	return h.a.Enabled(ctx, level) || h.b.Enabled(ctx, level)
}

func (h both) Handle(ctx context.Context, r slog.Record) error {
	var problems []error
	for _, next := range []slog.Handler{h.a, h.b} {
		if next.Enabled(ctx, r.Level) {
			problems = append(problems, next.Handle(ctx, r.Clone()))
		}
	}
	return errors.Join(problems...)
}

func (h both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{h.a.WithAttrs(attrs), h.b.WithAttrs(attrs)}
}

func (h both) WithGroup(name string) slog.Handler {
	return both{h.a.WithGroup(name), h.b.WithGroup(name)}
}
