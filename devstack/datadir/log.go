package datadir

import (
	"fmt"
	"os"
	"sync"
)

// maxLog is the size at which a log file becomes the old one.
const maxLog = 32 << 20

// Log is a file that is appended to: it and one former file (NAME.1) are kept,
// so that its size has a bound.
type Log struct {
	mu   sync.Mutex
	name string
	f    *os.File
	size int64
}

// OpenLog opens a log file to append to.
func (d *Dir) OpenLog(name string) (*Log, error) {
	l := &Log{name: d.File(name)}
	return l, l.open()
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", l.name, err)
	}
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open %s: %w", l.name, err)
	}
	l.f, l.size = f, fi.Size()
	return nil
}

// Write appends one record.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(b)) > maxLog {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(b)
	l.size += int64(n)
	return n, err
}

func (l *Log) rotate() error {
	if err := l.f.Close(); err != nil {
		return err
	}
	if err := os.Rename(l.name, l.name+".1"); err != nil {
		return err
	}
	return l.open()
}

// Close closes the file.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
