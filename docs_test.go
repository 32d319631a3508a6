package waypost_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"unicode"

	"waypost"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```")
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	// chapterNumber may stand before a heading; a citation leaves it out.
	chapterNumber = regexp.MustCompile(`^\d+\. `)
)

// headingsOf lists the headings of a page of the documentation, as they stand there.
func headingsOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var headings []string
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
		headings = append(headings, m[1])
	}
	return headings
}

// anchorOf is the anchor that GitHub gives a heading.
func anchorOf(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// docs/README.md lists every page and every decision once, and no other file.
func TestDocsIndex(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lists, found := strings.Cut(string(text), "\n## Pages\n")
	if !found {
		t.Fatal(`docs/README.md has no heading "Pages"`)
	}
	var listed, pages []string
	for _, m := range regexp.MustCompile(`(?m)^\| \[[^\]]+\]\(([^)]+)\) \| \S`).FindAllStringSubmatch(lists, -1) {
		listed = append(listed, m[1])
	}
	for _, pattern := range []string{"*.md", "adr/*.md"} {
		found, err := fs.Glob(os.DirFS("docs"), pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	pages = slices.DeleteFunc(pages, func(page string) bool { return page == "README.md" })
	slices.Sort(listed)
	slices.Sort(pages)
	if !slices.Equal(listed, pages) {
		t.Errorf("docs/README.md lists\n%q\nthere are\n%q", listed, pages)
	}
}

// docs/attacks.md names tests that there are.
func TestAttacksPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := wantTests(t, testNames(t), string(page)); n < 60 {
		t.Errorf("%d tests are named", n)
	}
}

// Each promise of SECURITY.md names tests that there are.
func TestPromisesHaveTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, promises, _ := strings.Cut(string(page), "| promise | tested in |\n| --- | --- |\n")
	promises, _, _ = strings.Cut(promises, "\n\n")
	tests, found := testNames(t), 0
	for line := range strings.Lines(promises) {
		if found++; wantTests(t, tests, line) == 0 {
			t.Errorf("no test is named for %s", line)
		}
	}
	if found < 10 {
		t.Errorf("SECURITY.md has %d promises", found)
	}
}

// testNames are the tests of all modules.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

// wantTests fails for a test that a text names and that there is not, and counts those that it names.
func wantTests(t *testing.T, tests map[string]bool, text string) int {
	t.Helper()
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(text, -1)
	for _, m := range named {
		if !tests[m[1]] {
			t.Errorf("there is no %s", m[1])
		}
	}
	return len(named)
}

// The pages link to files that there are, and to headings that these have.
func TestLinks(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	links := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(codeBlock.ReplaceAllString(string(text), ""), -1) {
			path, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			links++
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if anchor != "" && !slices.ContainsFunc(headingsOf(t, target), func(h string) bool { return anchorOf(h) == anchor }) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
	if links < 150 {
		t.Errorf("found %d links", links)
	}
}

// The tables of docs/contract.md have the members that the types have, and those of a
// message in the order in which it is sent.
func TestContractMembers(t *testing.T) {
	t.Parallel()
	lead, message := namesIn(t, "Lead fields"), namesIn(t, "Message")
	if want := membersOf(reflect.TypeFor[waypost.LeadFields](), ""); !slices.Equal(slices.Sorted(slices.Values(lead)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the table of leads has %v, the type %v", lead, want)
	}
	if want := membersOf(reflect.TypeFor[waypost.Message](), ""); !slices.Equal(message, want) {
		t.Errorf("the table of messages has %v, the type %v", message, want)
	}
	var grants []string
	for _, grant := range waypost.AllGrants {
		grants = append(grants, "`"+string(grant)+"`")
	}
	if list := strings.Join(grants, ", "); !strings.Contains(strings.Join(strings.Fields(sectionOf(t, "Grants")), " "), list+". ") {
		t.Errorf("the section of grants does not list %s", list)
	}
}

// sectionOf returns what docs/contract.md says under a heading.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("docs/contract.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### "+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	return section
}

// namesIn lists the names in the first column of the table under a heading.
func namesIn(t *testing.T, heading string) []string {
	t.Helper()
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|").FindAllStringSubmatch(sectionOf(t, heading), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			names = append(names, strings.Trim(name, "`"))
		}
	}
	return names
}

// membersOf lists the JSON members of a struct and of those in it.
func membersOf(of reflect.Type, path string) []string {
	var names []string
	for i := range of.NumField() {
		field := of.Field(i)
		name := path + field.Tag.Get("json")
		names = append(names, name)
		if field.Type.Kind() == reflect.Struct {
			names = append(names, membersOf(field.Type, name+".")...)
		}
	}
	return names
}

var (
	// citation is a page of the documentation and one or more of its headings, in quotes
	// that may be escaped, as they are in Go and in JSON.
	citation = regexp.MustCompile(`\b(docs/[a-z0-9/-]+\.md), (\\?"[^"\\]+\\?"(?:(?:, | and |, and )\\?"[^"\\]+\\?")*)`)
	quoted   = regexp.MustCompile(`"([^"\\]+)\\?"`)
	// oldCitation is a citation of papers that this repository does not hold.
	oldCitation = regexp.MustCompile(`(?i)\bchap` + `ter \d|\bcontract,? chap` + `ter|\b(lead|webhook|search) docu` + `ment\b`)
)

// Each citation of a heading, such as docs/contract.md, "Idempotency keys", names one
// that its page has.
func TestCitations(t *testing.T) {
	t.Parallel()
	headings := map[string][]string{}
	found := 0
	for _, path := range textFiles(t, ".") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n, faults := checkCitations(string(text), func(page string) []string {
			if _, err := os.Stat(page); err == nil && headings[page] == nil {
				headings[page] = headingsOf(t, page)
			}
			return headings[page]
		})
		found += n
		for _, fault := range faults {
			t.Errorf("%s:%s", path, fault)
		}
	}
	if found < 90 {
		t.Errorf("found %d citations", found)
	}
	contract := headingsOf(t, "docs/contract.md")
	for i, h := range contract {
		if name := chapterNumber.ReplaceAllString(h, ""); slices.ContainsFunc(contract[:i], func(other string) bool {
			return chapterNumber.ReplaceAllString(other, "") == name
		}) {
			t.Errorf("docs/contract.md has two headings %q: a citation would mean either", name)
		}
	}
}

func TestCitations_faults(t *testing.T) {
	t.Parallel()
	const page = "docs/" + "a.md" // in two parts, as below: this file is looked through, too
	for text, want := range map[string]string{
		"a (PAGE, \"One\")":                              `1`,
		"// a (PAGE,\n\t// \"Two words\")":               `1`,
		"'PAGE, \\\"One\\\"'":                            `1`,
		"PAGE, \"One\" and \"Two words\"":                `2`,
		"x\n\n# PAGE, \"Too\"":                           `1; 3: PAGE has no heading "Too"`,
		"// PAGE, \"One\", \"2. Two\n// words\", \"Tw\"": `3; 1: PAGE has no heading "2. Two words"; 1: PAGE has no heading "Tw"`,
		"a\n// (contract,\n// chap" + "ter three)":       `0; 2: cites what is not here: contract, chap` + `ter`,
		"the lead\n# docu" + "ment says":                 `0; 1: cites what is not here: lead docu` + `ment`,
		"in chap" + "ter 7":                              `0; 1: cites what is not here: chap` + `ter 7`,
	} {
		text, want = strings.ReplaceAll(text, "PAGE", page), strings.ReplaceAll(want, "PAGE", page)
		n, faults := checkCitations(text, func(string) []string { return []string{"One", "2. Two words"} })
		if got := strings.Join(append([]string{fmt.Sprint(n)}, faults...), "; "); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// checkCitations counts the citations in a text, and tells line and fault of each that
// its page does not have.
func checkCitations(text string, headings func(page string) []string) (found int, faults []string) {
	joined, begins := joinLines(text)
	fault := func(at int, format string, args ...any) {
		line := sort.Search(len(begins), func(i int) bool { return begins[i] > at })
		faults = append(faults, fmt.Sprintf("%d: ", line)+fmt.Sprintf(format, args...))
	}
	for _, m := range citation.FindAllStringSubmatchIndex(joined, -1) {
		page := joined[m[2]:m[3]]
		for _, name := range quoted.FindAllStringSubmatch(joined[m[4]:m[5]], -1) {
			found++
			if !slices.ContainsFunc(headings(page), func(h string) bool { return chapterNumber.ReplaceAllString(h, "") == name[1] }) {
				fault(m[0], "%s has no heading %q", page, name[1])
			}
		}
	}
	for _, m := range oldCitation.FindAllStringIndex(joined, -1) {
		fault(m[0], "cites what is not here: %s", joined[m[0]:m[1]])
	}
	return found, faults
}

// joinLines makes one line of a text, without what begins a line of a comment, since a
// citation may be wrapped; begins is where each of its lines begins there.
func joinLines(text string) (joined string, begins []int) {
	var b strings.Builder
	for line := range strings.Lines(text) {
		begins = append(begins, b.Len())
		line = strings.TrimSpace(line)
		for _, mark := range []string{"// ", "# "} {
			line = strings.TrimPrefix(line, mark)
		}
		b.WriteString(line + " ")
	}
	return b.String(), begins
}

// textFiles lists the files below a folder that people write, but for what .gitignore
// names and recorded data.
func textFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".waypost", "bin", "testdata", "__pycache__", "node_modules", "dist"}, d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular() || d.Name() == ".env":
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && !bytes.ContainsRune(text, 0) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
