package console

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// used finds keys of texts in templates and in Go: whole ones, and the beginnings of those
// that end with a value (print "status." .Status).
var used = regexp.MustCompile(`\b(?:t|v\.t|v\.texts|translate|options) ?\(?(?:v, |\(print |v\.chosen\.Language, |preferencesOf\(c, r\)\.Language, )?"([a-zA-Z][\w.-]*)"`)

func TestCatalogues(t *testing.T) {
	t.Parallel()
	first := slices.Sorted(maps.Keys(catalogues[languages[0]]))
	for _, language := range languages[1:] {
		other := slices.Sorted(maps.Keys(catalogues[language]))
		for _, key := range first {
			if !slices.Contains(other, key) {
				t.Errorf("%s.json has no %s", language, key)
			}
		}
		for _, key := range other {
			if !slices.Contains(first, key) {
				t.Errorf("%s.json has %s, which %s.json has not", language, key, languages[0])
			}
		}
		for _, key := range first {
			if got, want := placeholders(catalogues[language][key].other), placeholders(catalogues[languages[0]][key].other); !slices.Equal(got, want) {
				t.Errorf("%s: %s has %v, %s has %v", key, language, got, languages[0], want)
			}
		}
	}
	var files []string
	for _, pattern := range []string{"*.go", "templates/*.html"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	met := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range used.FindAllStringSubmatch(string(text), -1) {
			found := false
			for _, key := range first {
				if key == m[1] || strings.HasSuffix(m[1], ".") && strings.HasPrefix(key, m[1]) {
					met[key], found = true, true
				}
			}
			if !found {
				t.Errorf("%s uses %q, which no catalogue has", file, m[1])
			}
		}
	}
	for _, key := range first {
		if !met[key] {
			t.Errorf("nothing uses %s", key)
		}
	}
}

func placeholders(text string) []string {
	found := regexp.MustCompile(`\{\w+\}`).FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

func TestTranslate(t *testing.T) {
	catalogues["xx"] = map[string]message{"leads": {"{n} lead of {name}", "{n} leads of {name}"}, "plain": {other: "{a}{a}"}}
	for _, tt := range []struct {
		key  string
		args []any
		want string
	}{
		{"leads", []any{"n", 1, "name", "{n}"}, "1 lead of {n}"},
		{"leads", []any{"n", 1234567, "name", "Ada"}, "1,234,567 leads of Ada"},
		{"plain", []any{"a", "x"}, "xx"},
		{"status.new", nil, "new"},
	} {
		if got := translate("xx", tt.key, tt.args...); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.key, got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 100_000: "100,000"} {
		if got := number(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
