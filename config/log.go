package config

import (
	"io"
	"log/slog"
	"os"
)

// Values of Log.Format.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// Logger makes a logger that writes to w as l says.
func (l Log) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.Level}
	if l.Format == FormatText || (l.Format == "" && IsTerminal(w)) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// IsTerminal tells whether a person sees what is written to w.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
