package waypost

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxFolded bounds a folded text, in bytes: PostgreSQL takes up to 2,704 of them into an
// index. Only texts of characters that stand for whole phrases, such as U+FDFA, are cut.
const maxFolded = 2000

// FoldText is a text as lists compare names and e-mail addresses, and conditions the latter, the
// same on every database: NFKC and full case folding of Unicode. The dot that İ folds to beside i
// is left out, so that İ is i.
func FoldText(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(s)
	}
	folded := cases.Fold().String(norm.NFKC.String(s))
	folded = norm.NFKC.String(strings.ReplaceAll(folded, "i\u0307", "i"))
	if len(folded) > maxFolded {
		folded = strings.ToValidUTF8(folded[:maxFolded], "")
	}
	return folded
}
