//go:build !unix || solaris || illumos || aix

package embedded

import (
	"errors"
	"os"
)

func flock(*os.File) (taken bool, err error) {
	return false, errors.New("this system has no lock that ends with its process, which the embedded index needs")
}
