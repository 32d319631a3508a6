package waypost_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The limits of CONTRIBUTING.md, "Style".
const (
	mostLines      = 70  // of a function
	mostLinesAlone = 25  // of a function without a comment
	mostCharacters = 140 // of a line; a tab is one
)

// bannedWords are not used in names and comments: what is named says what it does, or is.
var bannedWords = map[string]string{
	"fresh": "unused, new, unsent, … by what it is", "lane": "loop, or writer", "lanes": "loops, or writers",
	"gather": "what it does", "gathered": "what it does", "bell": "signal", "rung": "signaled", "turnstile": "gate",
	"arrival": "what arrives", "glance": "look", "patient": "that it waits",
}

// longLines are how many lines of each folder are too long still: no more come in.
var longLines = map[string]int{
	".": 112, "activities": 7, "app": 56, "bench": 38, "client": 12, "cmd": 292, "config": 35, "console": 287,
	"delivery": 39, "devstack": 285, "gateway": 767, "journey": 559, "limits": 6, "listen": 2, "receiver": 11,
	"searchsvc": 66, "segment": 9, "signature": 3, "store": 735, "webhook": 77, "worker": 11, "workflows": 142,
	"yamljson": 23,
}

// camel finds the words of a name, and of a comment.
var camel = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// tooLong are the places of the lines that are too long.
func tooLong(name string, text []byte) (places []string) {
	for i, line := range strings.Split(string(text), "\n") {
		if n := utf8.RuneCountInString(line); n > mostCharacters {
			places = append(places, fmt.Sprintf("%s:%d: %d characters; %d at most", name, i+1, n, mostCharacters))
		}
	}
	return places
}

// styleFaults are the places of a file that break the rules of names, comments and functions; those of
// names and comments hold for tests, too.
func styleFaults(t *testing.T, name string, text []byte) (faults []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if ast.IsGenerated(file) {
		return nil
	}
	fault := func(at token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s", set.Position(at), fmt.Sprintf(format, args...)))
	}
	banned := func(at token.Pos, text string) {
		for _, word := range camel.FindAllString(text, -1) {
			if better, ok := bannedWords[strings.ToLower(word)]; ok {
				fault(at, "%s: say %s", word, better)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			banned(id.Pos(), id.Name)
		}
		return true
	})
	for _, group := range file.Comments {
		for _, c := range group.List {
			banned(c.Pos(), c.Text)
		}
	}
	if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "storetest/") || strings.Contains(name, "searchtest/") {
		return faults
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		switch lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; {
		case lines > mostLines:
			fault(f.Pos(), "%s has %d lines; %d at most", f.Name.Name, lines, mostLines)
		case lines > mostLinesAlone && f.Doc == nil:
			fault(f.Pos(), "%s has %d lines and no comment", f.Name.Name, lines)
		}
	}
	return faults
}

// The rules of CONTRIBUTING.md, "Style", hold for all Go files.
func TestStyle(t *testing.T) {
	t.Parallel()
	tree, long := os.DirFS("."), map[string][]string{}
	err := fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(file, ".go"):
			return nil
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		for _, fault := range styleFaults(t, file, text) {
			t.Error(fault)
		}
		folder, _, found := strings.Cut(file, "/")
		if !found {
			folder = "."
		}
		long[folder] = append(long[folder], tooLong(file, text)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, places := range long {
		if len(places) > longLines[folder] {
			t.Errorf("%s has %d lines that are too long, and may have %d; these or others:\n%s", folder, len(places), longLines[folder], strings.Join(places, "\n"))
		}
	}
}

func TestStyleFindsFaults(t *testing.T) {
	t.Parallel()
	body := func(lines int) string { return strings.Repeat("\tx()\n", lines-2) }
	for _, tt := range []struct{ name, text, want string }{
		{"a name", "var freshOnes = 1", "a.go:2:5: fresh: say unused"},
		{"a comment", "// The last lane of all.", "a.go:2:1: lane: say loop"},
		{"a long function", "// f does.\nfunc f() {\n" + body(71) + "}", "f has 71 lines; 70 at most"},
		{"a function without a comment", "func f() {\n" + body(26) + "}", "f has 26 lines and no comment"},
		{"a long line", "// " + strings.Repeat("ä", 138), "a.go:2: 141 characters; 140 at most"},
		{"what is well", "// f refreshes.\nfunc f() {\n" + body(70) + "}\n\nfunc g() {\n" + body(25) + "}\n// " + strings.Repeat("ä", 137), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := []byte("package a\n" + tt.text + "\n")
			got := strings.Join(append(styleFaults(t, "a.go", text), tooLong("a.go", text)...), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
