package store_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFiles checks that doc.go lists the files that there are, and that no other than
// those named db_* ask which database it is.
func TestFiles(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("doc.go")
	check(t, err)
	listed := map[string]bool{"doc.go": true}
	for _, m := range regexp.MustCompile(`(?m)^//\t(\S+\.go) `).FindAllStringSubmatch(string(index), -1) {
		listed[m[1]] = true
	}
	files, err := filepath.Glob("*.go")
	check(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if !listed[file] {
			t.Errorf("doc.go does not list %s", file)
		}
		delete(listed, file)
		text, err := os.ReadFile(file)
		check(t, err)
		if regexp.MustCompile(`\.postgres\b`).Match(text) && !strings.HasPrefix(file, "db_") {
			t.Errorf("%s asks which database it is", file)
		}
	}
	for file := range listed {
		t.Errorf("doc.go lists %s, which there is not", file)
	}
}
