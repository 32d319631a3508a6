//go:build unix && !solaris && !illumos && !aix

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// flock locks a file for this process, or tells that another one has done so.
func flock(f *os.File) (taken bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
