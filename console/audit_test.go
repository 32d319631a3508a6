package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"waypost"
	"waypost/api"
)

// actionOf is the action of an entry of the table changes, "" for one that is not recorded.
func actionOf(entry ast.Expr) string {
	text := func(e ast.Expr) string {
		if named, is := e.(*ast.KeyValueExpr); is {
			e = named.Value
		}
		literal, is := e.(*ast.BasicLit)
		if !is {
			return ""
		}
		value, _ := strconv.Unquote(literal.Value) // it compiles
		return value
	}
	switch of := entry.(type) {
	case *ast.CallExpr: // post or controlled
		if of.Fun.(*ast.Ident).Name == "controlled" {
			return text(of.Args[0]) + "." + text(of.Args[1])
		}
		return text(of.Args[0])
	case *ast.CompositeLit:
		return text(of.Elts[0])
	}
	return ""
}

// recorded are the actions that the audit log can have: those that the gateway's test of it lists
// in its table changes, and those of applications and users.
func recorded(t *testing.T) (actions []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../gateway/audit_test.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && spec.Names[0].Name == "changes" {
			for _, entry := range spec.Values[0].(*ast.CompositeLit).Elts {
				if found := actionOf(entry.(*ast.KeyValueExpr).Value); found != "" {
					actions = append(actions, found)
				}
			}
		}
		return true
	})
	files, err := filepath.Glob("../store/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"((?:application|user|session)\.[a-zA-Z]+)"`).FindAllStringSubmatch(string(text), -1) {
			actions = append(actions, m[1])
		}
	}
	return actions
}

// Each action of the audit log has a text for its thing and for what was done to it.
func TestActionsHaveTexts(t *testing.T) {
	t.Parallel()
	actions := recorded(t)
	for _, known := range []string{"lead.create", "journey.reverseWinner", "enrollment.pause", "suppression.delete", "article.reindex", "application.rotate", "user.reset", "session.fail"} {
		if !slices.Contains(actions, known) {
			t.Errorf("%s is not among the actions that were found: %v", known, actions)
		}
	}
	for _, action := range actions {
		thing, did, _ := strings.Cut(action, ".")
		for _, language := range languages {
			for _, key := range []string{"audit.thing." + thing, "audit.did." + did} {
				if _, known := catalogues[language][key]; !known {
					t.Errorf("%s: %s.json has no %s", action, language, key)
				}
			}
		}
	}
}

func TestAuditPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ action, target, want string }{
		{"segment.update", waypost.PrefixSegment + "1", "/segments/" + waypost.PrefixSegment + "1"},
		{"segment.delete", waypost.PrefixSegment + "1", ""},
		{"lead.update", "17", "/leads/17"},
		{"token.issue", "t1", ""},
	} {
		if got := (auditEntry{api.AuditEntry{Action: tt.action, Target: tt.target}}).Path(); got != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.action, tt.target, got, tt.want)
		}
	}
}
