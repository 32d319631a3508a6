package waypost_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A doc.go that lists files names all of its folder, and no other.
func TestListsOfFiles(t *testing.T) {
	t.Parallel()
	tree, found := os.DirFS("."), 0
	name := regexp.MustCompile(`\w+\.go\b`)
	err := fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() != "doc.go" {
			return err
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		comment, _, _ := strings.Cut(string(text), "\npackage ")
		listed := name.FindAllString(comment, -1)
		if len(listed) == 0 {
			return nil
		}
		found++
		files, err := fs.Glob(tree, path.Join(path.Dir(file), "*.go"))
		if err != nil {
			return err
		}
		files = slices.DeleteFunc(files, func(f string) bool { return f == file || strings.HasSuffix(f, "_test.go") })
		for i, f := range files {
			files[i] = path.Base(f)
		}
		slices.Sort(listed)
		listed = slices.Compact(listed)
		slices.Sort(files)
		if !slices.Equal(listed, files) {
			t.Errorf("%s lists\n%q\nthere are\n%q", file, listed, files)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 9 {
		t.Errorf("found %d lists", found)
	}
}
