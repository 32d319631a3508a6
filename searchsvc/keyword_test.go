package searchsvc

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

func TestParseKeyword(t *testing.T) {
	t.Parallel()
	cjk := func(s string) Part { return Part{PartCJK, s} }
	word := func(s string) Part { return Part{PartWord, s} }
	symbol := func(s string) Part { return Part{PartSymbol, s} }
	for _, tt := range []struct {
		in   string
		want []Part
		last int
	}{
		{"搜索引擎", []Part{cjk("搜索引擎")}, -1},
		{"Go语言 入门", []Part{word("Go"), cjk("语言"), cjk("入门")}, 0},
		{"C++/C# node.js", []Part{word("C++"), word("C#"), word("node"), word("js")}, 3},
		{"ＡＢＣ１！", []Part{word("ABC1")}, 0},
		{"ー〇々 ｶﾅ 검색 ㄅ", []Part{cjk("ー〇々"), cjk("カナ"), cjk("검색"), cjk("ㄅ")}, -1},
		{"résumé Москва e\u0301", []Part{word("résumé"), word("москва"), word("é")}, 2},
		{"🚀👍🏽 ❤\uFE0F €", []Part{symbol("🚀"), symbol("👍"), symbol("❤"), symbol("€")}, -1},
		{"#Waypost ##FAQ phone+email C++17 C#7 issue#35 F# + # ++", []Part{word("Waypost"), word("FAQ"), word("phone"), word("email"), word("C++"), word("17"), word("C#"), word("7"), word("issue"), word("35"), word("F#")}, 10},
		{"go lang GO go", []Part{word("go"), word("lang"), word("go")}, 2},
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
		if !unicode.Is(unicode.Han, r) || foldPiece(string(r)) != string(r) {
			t.Fatalf("%U is no plain Chinese character", r)
		}
	}
}
