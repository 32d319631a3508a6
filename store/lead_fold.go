package store

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxFolded bounds a folded text, in bytes: PostgreSQL takes up to 2,704 of them into an
// index. Only texts of characters that stand for whole phrases, such as U+FDFA, are cut.
const maxFolded = 2000

// foldText is a text as lists compare names and e-mail addresses, the same on every
// database: NFKC and full case folding of Unicode. The dot that İ folds to beside i is
// left out, so that İ is i.
func foldText(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	folded := cases.Fold().String(norm.NFKC.String(s))
	folded = norm.NFKC.String(strings.ReplaceAll(folded, "i\u0307", "i"))
	if len(folded) > maxFolded {
		folded = strings.ToValidUTF8(folded[:maxFolded], "")
	}
	return folded
}

// maxName is how many characters of the name of a webhook or a journey lists compare. A
// published one has no more.
const maxName = 200

// foldName is the name of a webhook or a journey as lists compare it. A draft's can be long.
func foldName(name string) string {
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName])
	}
	return foldText(cleanText(name))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
