package searchsvc

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestParseKeyword(t *testing.T) {
	t.Parallel()
	cjk := func(s string) Part { return Part{PartRun, s} }
	word := func(s string) Part { return Part{PartWord, s} }
	symbol := func(s string) Part { return Part{PartSymbol, s} }
	for _, tt := range []struct {
		in   string
		want []Part
		last int
	}{
		{"搜索引擎", []Part{cjk("搜索引擎")}, -1},
		{"Go语言 入门", []Part{word("go"), cjk("语言"), cjk("入门")}, 0},
		{"C++/C# node.js", []Part{word("c++"), word("c#"), word("node"), word("js")}, 3},
		{"ＡＢＣ１！", []Part{word("abc1")}, 0},
		{"ー〇々 ｶﾅ 검색 ㄅ", []Part{cjk("ー〇々"), cjk("カナ"), cjk("검색"), cjk("ㄅ")}, -1},
		{"résumé Москва e\u0301", []Part{word("résumé"), word("москва"), word("é")}, 2},
		{"🚀👍🏽 ❤\uFE0F €", []Part{symbol("🚀"), symbol("👍"), symbol("❤"), symbol("€")}, -1},
		{"#Waypost ##FAQ phone+email C++17 C#7 issue#35 F# + # ++", []Part{word("waypost"), word("faq"), word("phone"), word("email"), word("c++"), word("17"), word("c#"), word("7"), word("issue"), word("35"), word("f#")}, 10},
		{"go lang GO go", []Part{word("go"), word("lang"), word("go")}, 2},
		{"資料庫 คู่มือ ขั้น1", []Part{cjk("资料库"), cjk("คู่มือ"), cjk("ขั้น"), word("1")}, 3},
		{"\uFEFF报\u200B销 \u202D138\u202C", []Part{cjk("报销"), word("138")}, 1},
		{"👩‍💻 🇩🇪🇫🇷 1️⃣ #️⃣", []Part{symbol("👩‍💻"), symbol("🇩🇪"), symbol("🇫🇷"), word("1"), symbol("♯")}, 3},
		{"预算 && name:=x || `y`", []Part{cjk("预算"), word("name"), word("x"), word("y")}, 3},
		{"-\"*!!! ~^|<=>$`\x00", nil, -1},
		{"，。、　「」…—\u200D\uE000", nil, -1},
		{"", nil, -1},
	} {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			got := ParseKeyword(tt.in)
			if !slices.Equal(got.Parts, tt.want) {
				t.Errorf("got  %v\nwant %v", got.Parts, tt.want)
			}
			if got.LastWord() != tt.last {
				t.Errorf("last word %d, want %d", got.LastWord(), tt.last)
			}
		})
	}
}

func TestParseKeywordBoundsParts(t *testing.T) {
	t.Parallel()
	const numbers = "一二三四五六七八九十百千万亿甲乙丙丁戊己庚辛壬癸子丑寅卯辰巳午未申酉戌亥"
	if got := ParseKeyword(strings.Join(strings.Split(numbers, ""), " ")).Parts; len(got) != maxParts || got[31].Text != numbers[3*31:3*32] {
		t.Errorf("%d parts, want %d", len(got), maxParts)
	}
}

func TestIdeographs(t *testing.T) {
	t.Parallel()
	for r := rune(0x4E00); r <= 0x9FFF; r++ {
		if !unicode.Is(unicode.Han, r) || foldPiece(string(r)) != string(simplified(r)) {
			t.Fatalf("%U is no plain Chinese character", r)
		}
	}
}

func TestBare(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"résumé": "resume", "việt": "viet", "tiếng": "tieng", "łódź": "lodz", "øresund": "oresund", "đường": "duong", "æther": "aether",
		"ǿ": "o", "чай": "чаи", "ёлка": "елка", "άλφα": "αλφα", "أحمد": "احمد", "مُحَمَّد": "محمد", "שָׁלוֹם": "שלום", "x\u0323": "x",
		"हिन्दी": "हिन्दी", "c++": "c++", "abc": "abc", "straße": "straße",
	} {
		if got := Bare(word); got != want {
			t.Errorf("%s is %s without accents, want %s", word, got, want)
		}
		if again := Bare(want); again != want {
			t.Errorf("%s is %s", want, again)
		}
	}
	if got := ParseKeyword("café Go Łódź resume").Accented(); !slices.Equal(got, []string{"café", "łódź"}) {
		t.Errorf("accented %q", got)
	}
	if got := len(ParseKeyword("é è ê ë à á â ä ò ó").Accented()); got != maxAccented {
		t.Errorf("%d accented words", got)
	}
}

func TestRuns(t *testing.T) {
	t.Parallel()
	for run, want := range map[string]string{
		"搜索引擎": "搜索 索引 引擎", "คู่มือ": "คู่มื มือ", "ភាសាខ្មែរ": "", "学": "",
	} {
		got := strings.Join(Pairs(Fold(run)), " ")
		if want != "" && got != want {
			t.Errorf("the pairs of %s are %s, want %s", run, got, want)
		}
		if all := strings.Join(Characters(Fold(run)), ""); all != Fold(run) {
			t.Errorf("the characters of %s are %s", run, all)
		}
	}
	for _, tt := range []struct {
		text, run string
		want      bool
	}{{"ภาษาไทยคู่มือ", "คู่มือ", true}, {"ภาษาไทยคู่มือ", "คู", false}, {"คู่ คู", "คู", true}, {"搜索", "搜", true}, {"搜索", "引", false}} {
		if got := HoldsRun(tt.text, tt.run); got != tt.want {
			t.Errorf("%s holds %s: %t", tt.text, tt.run, got)
		}
	}
}
