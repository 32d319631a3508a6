// Package datadir is the directory in which waypost-dev keeps everything: the
// databases, the keys and passwords that it generated at the first start, and the files
// with which other processes join. Only its owner can read it.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Names of the files.
const (
	LockFile    = "waypost-dev.lock"
	StateFile   = "state.json"
	ProfileFile = "profile.json"
	EnvFile     = "waypost.env"
	LogFile     = "waypost-dev.log"
	// LedgerFile has a line of JSON for each POST that the demo receiver got.
	LedgerFile = "receiver.jsonl"
	// DatabaseFile is our own SQLite database, where no other one is set.
	DatabaseFile = "waypost.db"
)

// Dir is a data directory that this process has claimed.
type Dir struct {
	path string
	lock *os.File
}

// Claim makes the directory if it is not there and locks it. A second process
// that claims it gets an error of one line. The lock ends with the process,
// however that ends.
func Claim(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("WAYPOST_DATA_DIR: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, unusable(path, err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return nil, unusable(path, err)
	}
	d := &Dir{path: path}
	for d.lock == nil {
		if d.lock, err = lock(d.File(LockFile)); err != nil {
			return nil, unusable(path, err)
		}
	}
	return d, nil
}

// lock returns nil without an error if the file was removed by its former owner
// meanwhile: the lock would be on a file that no other process can open.
func lock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w%s", errInUse, owner(f))
		}
		return nil, err
	}
	held, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if seen, err := os.Stat(name); err != nil || !os.SameFile(held, seen) {
		return nil, f.Close()
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

var errInUse = errors.New("in use")

func owner(f *os.File) string {
	b := make([]byte, 32)
	n, _ := f.ReadAt(b, 0) // an empty file names nobody
	if pid := strings.TrimSpace(string(b[:n])); pid != "" {
		return " by process " + pid
	}
	return ""
}

func unusable(path string, err error) error {
	if errors.Is(err, errInUse) {
		return fmt.Errorf("another waypost-dev is using %s (%w): stop it, or set WAYPOST_DATA_DIR to another directory", path, err)
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return fmt.Errorf("the data directory %s cannot be used (%w): set WAYPOST_DATA_DIR to a directory that you can write", path, err)
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// File is the absolute path of a file in the directory.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Release gives the directory back.
func (d *Dir) Release() error {
	// Removed while locked: a process that opened it meanwhile sees that it is gone.
	err := os.Remove(d.lock.Name())
	return errors.Join(err, d.lock.Close())
}

// Remove removes a file if it is there.
func (d *Dir) Remove(name string) error {
	if err := os.Remove(d.File(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// WriteJSON writes v to a file that only the owner can read. A reader sees the former
// content or the new one, never a part, also after a crash.
func (d *Dir) WriteJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return d.Write(name, append(b, '\n'))
}

// Write is WriteJSON for bytes.
func (d *Dir) Write(name string, content []byte) error {
	next := d.File(name + ".new") // a killed process may have left one: it is written over
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(next, d.File(name))
	}
	if err == nil {
		err = d.sync()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// sync makes a rename last.
func (d *Dir) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
