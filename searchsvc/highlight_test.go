package searchsvc

import (
	"html"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// marks writes a highlight with brackets for its tags, to read it more easily.
func marks(s string) string {
	return strings.NewReplacer(openTag, "[", closeTag, "]").Replace(s)
}

func TestHighlightName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, keyword, text, want string
		matched                   []string
	}{
		{name: "inside a sentence", keyword: "学生", text: "大学生和学生会", want: "大[学生]和[学生]会"},
		{name: "adjacent parts", keyword: "搜索 引擎", text: "搜索引擎，引擎搜索", want: "[搜索引擎]，[引擎搜索]"},
		{name: "overlapping", keyword: "哈哈", text: "哈哈哈啊", want: "[哈哈哈]啊"},
		{name: "English and Chinese touch", keyword: "Go语言", text: "学Go语言", want: "学[Go语言]"},
		{name: "blank between", keyword: "search engine", text: "Search  ENGINE", want: "[Search]  [ENGINE]"},
		{name: "whole words, but the last", keyword: "go lang", text: "go golang Language", want: "[go] golang [Lang]uage"},
		{name: "typing error", keyword: "serch", text: "Search research", want: "[Search] research", matched: []string{"search"}},
		{name: "full width", keyword: "abc", text: "ＡＢＣ全", want: "[ＡＢＣ]全"},
		{name: "case that changes length", keyword: "straße", text: "İẞ STRAẞE x STRASSE", want: "İẞ [STRAẞE] x [STRASSE]"},
		{name: "dotted and dotless i", keyword: "istanbul", text: "İstanbul İSTANBUL I\u0307stanbul ıstanbul", want: "[İstanbul] [İSTANBUL] [I\u0307stanbul] [ıstanbul]"},
		{name: "signs before a word", keyword: "faq phone email", text: "##FAQ phone+email +email", want: "##[FAQ] [phone]+[email] +[email]"},
		{name: "signs of a word", keyword: "c++ c# 17", text: "C++17, C#7 c++ C #c", want: "[C++17], [C#]7 [c++] C #c"},
		{name: "accents of their own", keyword: "diabète", text: "Diabe\u0300te", want: "[Diabe\u0300te]"},
		{name: "dakuten of their own", keyword: "ガンダム", text: "カ\u3099ンタ\u3099ム", want: "[カ\u3099ンタ\u3099ム]"},
		{name: "jamo", keyword: "학점인정", text: "\u1112\u1161\u11A8\u110C\u1165\u11B7인정", want: "[\u1112\u1161\u11A8\u110C\u1165\u11B7인정]"},
		{name: "half width", keyword: "データ", text: "ﾃﾞｰﾀﾍﾞｰｽ", want: "[ﾃﾞｰﾀ]ﾍﾞｰｽ"},
		{name: "radicals", keyword: "文件长", text: "⽂件⻓", want: "[⽂件⻓]"},
		{name: "invisible", keyword: "报销 soft", text: "报\u200B销 so\u00ADft", want: "[报\u200B销] [so\u00ADft]"},
		{name: "invisible at the edge", keyword: "报", text: "\u200B报\u200B销", want: "\u200B[报]\u200B销"},
		{name: "ligature in half", keyword: "f", text: "ﬁne", want: "[ﬁ]ne"},
		{name: "one character of a composed one", keyword: "株", text: "㍿ ㈱", want: "[㍿] [㈱]"},
		{name: "unit", keyword: "5kg m2", text: "5㎏ m²", want: "[5㎏] [m²]"},
		{name: "trademark", keyword: "waypost x", text: "Waypost™", want: "[Waypost]™"},
		{name: "yen", keyword: "¥100", text: "￥100", want: "[￥100]"},
		{name: "emoji of several", keyword: "👨‍👩‍👧", text: "a👨‍👩‍👧b👨👩👧", want: "a[👨‍👩‍👧]b👨👩👧"},
		{name: "emoji in another", keyword: "💻", text: "👩‍💻👩", want: "[👩‍💻]👩"},
		{name: "skin tone", keyword: "👍", text: "👍🏽", want: "[👍🏽]"},
		{name: "of another skin tone", keyword: "👍🏿", text: "👍🏽👍", want: "[👍🏽👍]"},
		{name: "flags", keyword: "🇩🇪", text: "🇧🇩🇪🇸🇩🇪", want: "🇧🇩🇪🇸[🇩🇪]"},
		{name: "flags of tags", keyword: "🏴󠁧󠁢󠁥󠁮󠁧󠁿", text: "🏴󠁧󠁢󠁳󠁣󠁴󠁿🏴󠁧󠁢󠁥󠁮󠁧󠁿", want: "🏴󠁧󠁢󠁳󠁣󠁴󠁿[🏴󠁧󠁢󠁥󠁮󠁧󠁿]"},
		{name: "keycap", keyword: "1️⃣", text: "1️⃣ 2️⃣", want: "[1️⃣] 2️⃣"},
		{name: "keycap of a sign", keyword: "#️⃣", text: "# #️⃣", want: "# [#️⃣]"},
		{name: "variation selectors", keyword: "❤ 葛", text: "❤️葛󠄀", want: "[❤️葛󠄀]"},
		{name: "escaped", keyword: "script", text: `<script>"a" & 'b'</script>`, want: "&lt;[script]&gt;&#34;a&#34; &amp; &#39;b&#39;&lt;/[script]&gt;"},
		{name: "our own tags", keyword: "b", text: `<b class="highlight">`, want: "&lt;[b] class=&#34;highlight&#34;&gt;"},
		{name: "ampersand of an entity", keyword: "amp", text: "a&amp;b", want: "a&amp;[amp];b"},
		{name: "no match", keyword: "学生", text: "老师 <i>", want: "老师 &lt;i&gt;"},
		{name: "emoji", keyword: "🚀", text: "a🚀🚀b", want: "a[🚀🚀]b"},
		{name: "empty", keyword: "x", text: "", want: ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := marks(NewHighlighter(ParseKeyword(tt.keyword), tt.matched).Name(tt.text))
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestHighlightExcerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("一二三四五六七八九十", 20)
	for _, tt := range []struct{ name, keyword, text, want string }{
		{"short", "学生", "大学生", "大[学生]"},
		{"no match", "学生", long, long[:180] + "…"},
		{"in the middle", "学生", long + "学生" + long, "…" + long[:60] + "[学生]" + long[:114] + "…"},
		{"at the end", "学生", long + "学生", "…" + long[len(long)-174:] + "[学生]"},
		{"at the start", "学生", "学生" + long, "[学生]" + long[:174] + "…"},
		{"over the cut", "学生 会议室", "学生" + long[:168] + "会议室" + long, "[学生]" + long[:168] + "[会议室]…"},
		{"right before the cut", "学生 会", "学生" + long[:171] + "会会", "[学生]" + long[:171] + "[会]…"},
		{"emoji of several code points", "学生", strings.Repeat("x", 57) + "👩\u200D👩\u200D👧 学", strings.Repeat("x", 57) + "👩\u200D👩\u200D👧…"},
		{"accent at the front", "k", "xe\u0301" + strings.Repeat(",", 19) + "k" + long, "…e\u0301" + strings.Repeat(",", 19) + "[k]" + long[:117] + "…"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := marks(NewHighlighter(ParseKeyword(tt.keyword), nil).Excerpt(tt.text))
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Wherever in a long text the first match is, it is found, and in no word it begins.
func TestExcerptOfLongText(t *testing.T) {
	t.Parallel()
	for _, at := range []int{0, 1, 59, 93, 94, 95, 4095, 40_000} {
		for _, tt := range []struct{ keyword, before, match, after string }{
			{"鲸鱼", "学", "鲸鱼", "生"},
			{"鲸鱼鲸鱼", "鲸", "鲸鱼鲸鱼", "生"},
			{"whale", "，", "Whale", " "},
			{"whale x", ".", "WHALE", "\n"},
		} {
			text := strings.Repeat(tt.before, at) + tt.match + strings.Repeat(tt.after, 5000)
			lead := strings.Repeat(tt.before, min(at, 20))
			if at > 20 {
				lead = "…" + lead
			}
			rest := excerptLength - min(at, 20) - utf8.RuneCountInString(tt.match)
			want := lead + "[" + tt.match + "]" + strings.Repeat(tt.after, rest) + "…"
			if got := marks(NewHighlighter(ParseKeyword(tt.keyword), nil).Excerpt(text)); got != want {
				t.Errorf("%s at %d:\n got %q\nwant %q", tt.keyword, at, got, want)
			}
		}
		word := strings.Repeat("b", at+1) + "whale " + strings.Repeat("c", 5000)
		if got := NewHighlighter(ParseKeyword("whale"), nil).Excerpt(word); strings.Contains(got, openTag) {
			t.Errorf("the end of a word at %d is marked: %q", at, got)
		}
	}
}

// A short text is its own excerpt, whatever it is made of.
func TestExcerptOfMixedText(t *testing.T) {
	t.Parallel()
	alphabet := []rune("aB1+# 的学か\u3099ﾃﾞ\u200B\u200D👩💻🏽🇩🇪\u0301ßİﬁ½ㅎㅏ\u1112\u1161\u11A8\uFE0F\u20E3™€.\n㍿")
	r := rand.New(rand.NewPCG(1, 2))
	mixed := func(n int) string {
		var b strings.Builder
		for range r.IntN(n) {
			b.WriteRune(alphabet[r.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 5000 {
		text, keyword := mixed(24), mixed(6)
		h := NewHighlighter(ParseKeyword(keyword), nil)
		name, excerpt := h.Name(text), h.Excerpt(text)
		if name != excerpt || plain(name) != text {
			t.Fatalf("%+q in %+q: name %q, excerpt %q", keyword, text, name, excerpt)
		}
		for rest := name; ; {
			_, after, found := strings.Cut(rest, openTag)
			mark, behind, _ := strings.Cut(after, closeTag)
			if !found {
				break
			}
			before := strings.TrimSuffix(plain(rest), plain(after))
			if joined := uniseg.GraphemeClusterCount(before) + uniseg.GraphemeClusterCount(mark) + uniseg.GraphemeClusterCount(plain(behind)); joined != uniseg.GraphemeClusterCount(plain(rest)) {
				t.Fatalf("%+q cuts %+q in two: %q", keyword, text, name)
			}
			rest = behind
		}
	}
}

// FuzzHighlight checks that a highlight without its tags is part of the escaped
// text, that its tags are balanced and never touch, and that each mark holds
// something to mark.
func FuzzHighlight(f *testing.F) {
	f.Add("搜索 引擎", "serch", `<b class="highlight">搜索引擎</b> Search &amp; ẞ İ ﬁ`)
	f.Add("哈哈 c++", "", strings.Repeat("哈", 200)+" C++ \uE000\xFF\x00")
	f.Add("👍 a", "👍", "e\u0301a👍🏽👨\u200D👩\u200D👧"+strings.Repeat("\u0301", 100))
	f.Add("b", "", "\xE5\x93") // a character that is cut off
	f.Add("b", "class", `</b><b class="highlight"><script>…`)
	f.Add("c++ 🇩🇪 ｶﾞ", "", "#C++17 🇩🇪🇫🇷 か\u200B\u3099 ①② ﷺ ½ ㍿ \u1100\u1161\u11A8 phone+email 1\uFE0F\u20E3")
	f.Fuzz(func(t *testing.T, keyword, matched, text string) {
		k := ParseKeyword(keyword)
		h := NewHighlighter(k, strings.Fields(matched))
		f := folder{text: text, bare: true}
		f.fill(math.MaxInt)
		marked, _ := h.find(&f, 0, len(text))
		if _, at := h.first(text); at < 0 && len(marked) > 0 || at >= 0 && (len(marked) == 0 || marked[0].start != at) {
			t.Errorf("the first match of %q in %q is said to be at byte %d, it is at %v", keyword, text, at, marked)
		}
		escaped := html.EscapeString(string([]rune(text)))
		name, excerpt := h.Name(text), h.Excerpt(text)
		for _, got := range []string{name, excerpt} {
			if !utf8.ValidString(got) {
				t.Fatalf("not valid UTF-8: %q", got)
			}
			if strings.Contains(got, openTag+closeTag) || strings.Contains(got, closeTag+openTag) {
				t.Fatalf("empty or touching marks: %q", got)
			}
			checkBalanced(t, got)
		}
		if got := plain(name); got != escaped {
			t.Fatalf("name %q is not the escaped %q", got, escaped)
		}
		bare := plain(excerpt)
		if !strings.Contains(escaped, bare) { // then it was cut
			bare = strings.TrimSuffix(bare, ellipsis)
			if !strings.Contains(escaped, bare) {
				bare = strings.TrimPrefix(bare, ellipsis)
			}
		}
		if !strings.Contains(escaped, bare) {
			t.Fatalf("excerpt %q is not in %q", bare, escaped)
		}
		if runes := utf8.RuneCountInString(html.UnescapeString(bare)); runes > excerptLength+3*maxPiece+MaxKeywords+maxWord+2 {
			t.Fatalf("excerpt of %d characters", runes)
		}
		if strings.Contains(name, openTag) != strings.Contains(excerpt, openTag) {
			t.Fatalf("marks in one only: %q, %q", name, excerpt)
		}
	})
}

func plain(s string) string { return strings.NewReplacer(openTag, "", closeTag, "").Replace(s) }

func checkBalanced(t *testing.T, s string) {
	open := false
	for rest := s; ; {
		i := strings.IndexByte(rest, '<')
		if i < 0 {
			break
		}
		tag := openTag
		if open {
			tag = closeTag
		}
		after, ok := strings.CutPrefix(rest[i:], tag)
		if !ok {
			t.Fatalf("other markup than ours: %q", s)
		}
		open, rest = !open, after
	}
	if open {
		t.Fatalf("a mark is not closed: %q", s)
	}
}

// BenchmarkExcerpt is of a text that holds nothing of the keyword, as where only the
// title matches.
func BenchmarkExcerpt(b *testing.B) {
	for name, piece := range map[string]string{"English": "Receipts of less than 10 euros. ", "Chinese": "差旅结束后三十天内提交报账单。", "accents": "\u0301"} {
		text := strings.Repeat(piece, 8<<20/len(piece))
		h := NewHighlighter(ParseKeyword("报销 travel exp"), nil)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				h.Excerpt(text)
			}
		})
	}
}
