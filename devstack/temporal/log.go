package temporal

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/service/history/shard"
)

// serverLog passes the server's errors on to slog, whatever the logger's level; all other
// lines are dropped, because there are many.
type serverLog struct {
	log      *slog.Logger
	tags     []tag.Tag // of every line
	fatal    func(error)
	stopping *atomic.Bool // errors of interrupted work are not worth a line
}

var _ interface {
	log.Logger
	log.WithLogger
	log.SLogWrapper
} = serverLog{}

func (l serverLog) Debug(string, ...tag.Tag) {}
func (l serverLog) Info(string, ...tag.Tag)  {}
func (l serverLog) Warn(string, ...tag.Tag)  {}

func (l serverLog) Error(msg string, tags ...tag.Tag) {
	if l.stopping.Load() || settling(tags) {
		return
	}
	l.log.LogAttrs(context.Background(), slog.LevelError, msg, attrs(append(slices.Clip(l.tags), tags...))...)
}

func (l serverLog) DPanic(msg string, tags ...tag.Tag) { l.Error(msg, tags...) }

func (l serverLog) Panic(msg string, tags ...tag.Tag) {
	l.Error(msg, tags...)
	panic("temporal server: " + msg)
}

// Fatal must not return: the server calls it where it cannot go on.
func (l serverLog) Fatal(msg string, tags ...tag.Tag) {
	l.Error(msg, tags...)
	l.fatal(fatalError{msg, tags})
	panic("temporal server: " + msg)
}

// With only notes the tags: the server asks for a logger for each workflow and each task, and
// hardly any of them ever logs a line.
func (l serverLog) With(tags ...tag.Tag) log.Logger {
	l.tags = append(slices.Clip(l.tags), tags...)
	return l
}

// SLog gives the server's own use of slog the same treatment.
func (l serverLog) SLog() *slog.Logger {
	return slog.New(errorsOnly{l.log.Handler().WithAttrs(attrs(l.tags)), l.stopping})
}

// settling tells whether an error is about a shard that the server is still acquiring, at its
// start. On a busy machine a caller may ask for it too early; it then asks again.
func settling(tags []tag.Tag) bool {
	return slices.ContainsFunc(tags, func(t tag.Tag) bool {
		return t.Value() == shard.ErrShardStatusUnknown.Error() // a tag keeps an error's text
	})
}

func attrs(tags []tag.Tag) []slog.Attr {
	out := make([]slog.Attr, len(tags))
	for i, t := range tags {
		out[i] = slog.Any(t.Key(), t.Value())
	}
	return out
}

type fatalError struct {
	msg  string
	tags []tag.Tag
}

func (e fatalError) Error() string {
	for _, t := range e.tags {
		if t.Key() == "error" {
			return fmt.Sprintf("temporal server: %s: %v", e.msg, t.Value())
		}
	}
	return "temporal server: " + e.msg
}

type errorsOnly struct {
	slog.Handler
	stopping *atomic.Bool
}

func (h errorsOnly) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && !h.stopping.Load() && h.Handler.Enabled(ctx, level)
}

func (h errorsOnly) WithAttrs(a []slog.Attr) slog.Handler {
	h.Handler = h.Handler.WithAttrs(a)
	return h
}

func (h errorsOnly) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}
