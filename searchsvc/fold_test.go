package searchsvc

import (
	"math"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/unicode/norm"
)

func TestFold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"ＡＢＣ，１２３！ Go", "abc，123！ go"},
		{"Diabe\u0300te E\u0301", "diabète é"},
		{"ﬁ Ⅳ ㎏ m² ① ½ № ℃", "fi iv kg m2 1 1/2 no °c"},
		{"ß ẞ ς Σ Ä ŉ", "ss ss σ σ ä ʼn"},
		{"İ I\u0307 ı i", "i i i i"},
		{"ﷲ \uFE8D\uFE8E مـــحمد", "الله اا محمد"},
		{"ﾃﾞｰﾀ ｶﾞ か\u3099 か\u309A か\u200B\u3099", "データ ガ が か が"},
		{"\u1112\u1161\u11A8 \u314Eㅏ ﾡￂ", "학 하 가"},
		{"⽂⼯ ⻚⻓ 豈 \U0002F800", "文工 页长 岂 丽"},
		{"資料庫 臺灣 瞭解 \u2ED1", "资料库 台湾 了解 长"},
		{"คู่มือ น้ำ \u0E48ก", "คู่มือ น\u0E49\u0E4Dา ก"},
		{"报\u200B\u2060\uFEFF\u00AD销\u202D1\u202C\x00\x7F", "报销1"},
		{"می\u200Cخواهم", "میخواهم"},
		{"葛\U000E0100 ❤\uFE0F 1\uFE0F\u20E3 *\uFE0F\u20E3", "葛 ❤ 1 ✱"},
		{"👍🏽 🏽 👩🏽\u200D💻 👩\u200D", "👍 🏽 👩\u200D💻 👩"},
		{"#a ##b c+d C++ C# C++17 C#7 ab#7 e+\u0301f 5+ +", "# a ## b c + d c++ c# c++ 17 c# 7 ab # 7 e + f 5+ +"},
		{"￥100 ＝ a\u00A0b ´", "¥100 = a\u00A0b  "},
		{"a™ ℠ …", "a™ ℠ …"},
		{"Ꭰ ꭰ Ѐ ѐ", "Ꭰ Ꭰ ѐ ѐ"},
		{"\r\n\u2028。、", "\r\n\u2028。、"},
		{"x\xFFy", "x\uFFFDy"},
	} {
		if got := Fold(tt.in); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.in, got, tt.want)
		}
	}
}

// What is taken for a piece by itself without a look is one, whatever stands beside it.
func TestPlainOf(t *testing.T) {
	t.Parallel()
	const beside = "a 的。Жéか한\u0300\u200D\u3099\u11A8\uFF9E👩🏽🇩\u0E33"
	for r := rune(0); r <= 0x2FFFF; r++ {
		if r > 0x3200 && r < 0xD700 && r%97 != 0 || r > 0x10000 && r%997 != 0 {
			continue // of scripts with many characters, some
		}
		plain := plainOf(r)
		if plain < 0 {
			continue
		}
		if want := foldPiece(string(r)); want != string(plain) {
			t.Fatalf("%U becomes %q, want %q", r, string(plain), want)
		}
		for _, other := range beside {
			for _, s := range []string{string(other) + string(r), string(r) + string(other)} {
				if end, _, _ := nextPiece(s, 0); end < len(s) && (uniseg.GraphemeClusterCount(s) == 1 || norm.NFC.String(s[:end])+norm.NFC.String(s[end:]) != norm.NFC.String(s)) {
					t.Fatalf("%U and %U are cut in two", r, other)
				}
			}
		}
	}
}

// What the case of a letter is does not matter, of any letter of its script.
func TestFoldCases(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		folded := Fold(string(r))
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			if got := Fold(string(other)); got != folded {
				t.Errorf("%U becomes %+q, %U %+q", r, folded, other, got)
			}
		}
		if again := Fold(folded); again != folded {
			t.Errorf("%U becomes %+q, and that %+q", r, folded, again)
		}
	}
}

// FuzzFold checks that texts of the same meaning have one plain form, and that each
// piece is some of the text.
func FuzzFold(f *testing.F) {
	for _, s := range []string{"Diabe\u0300te ガンダム 학점 C++17 #a", "👩🏽\u200D💻🇩🇪🇫🇷 1\uFE0F\u20E3", "ﬁ ㍿ ﷺ ½ İ ẞ", strings.Repeat("\u0301", 300), "\xFF\u200B+"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		folded := Fold(s)
		if !utf8.ValidString(folded) || Fold(folded) != Fold(Fold(folded)) {
			t.Errorf("%q becomes %q", s, folded)
		}
		fold := folder{text: s}
		fold.fill(math.MaxInt)
		if string(fold.runes) != folded {
			t.Errorf("%q in parts becomes %q, as a whole %q", s, folded, string(fold.runes))
		}
		at := 0
		for _, from := range fold.spans {
			if from.start < at || from.end < from.start || from.end > len(s) {
				t.Fatalf("%q comes from %v", s, fold.spans)
			}
			at = from.start
		}
		end := 0
		for token := range Tokens(folded) {
			if token.Text == "" || token.At < end || folded[token.At:token.At+len(token.Text)] != token.Text {
				t.Errorf("%q has the token %+v", folded, token)
			}
			end = token.At + len(token.Text)
		}
	})
}
