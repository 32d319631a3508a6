package searchtest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"waypost/searchsvc"
)

// written are texts with keywords that find them, what of them is marked, and keywords
// that do not find them.
var written = []struct {
	text    string
	finds   map[string]string
	nothing []string
}{
	{"#Waypost launch", map[string]string{"Waypost": "Waypost", "waypost launch": "Waypost,launch", "#Waypost": "Waypost"}, []string{"way launch"}},
	{"##FAQ", map[string]string{"FAQ": "FAQ", "faq": "FAQ", "＃ＦＡＱ": "FAQ"}, []string{"#", "##"}},
	{"A→B ±5 │ x≤3 5−3", map[string]string{"→": "→", "±": "±", "≤ x": "x≤", "│": "│", "−": "−", "→ ±": "→,±", "→ b": "→B"}, []string{"←", "→ away", "→ ←", "b→c"}},
	{"5€ © ® 3×4 30°", map[string]string{"€": "€", "©": "©", "×": "×", "°": "°", "5 €": "5€"}, []string{"eur", "c", "r", "x", "€ c", "$"}},
	{"SKU20260001 in stock", map[string]string{"SKU20260001": "SKU20260001", "sku2026": "SKU2026"}, []string{"SKU20260003", "SKU20260003 stock", "stock SKU20260010"}},
	{"phone+email campaign", map[string]string{"email": "email", "phone campaign": "phone,campaign", "phone+email": "phone,email"}, []string{"phone+ campaign"}},
	{"call +8613800138000 now", map[string]string{"8613800138000": "8613800138000", "+8613800138000 now": "8613800138000,now"}, []string{"86 now"}},
	{"C++ beside C# and F#, C++17", map[string]string{"C++ and": "C++,and,C++", "c#": "C#", "f# and": "and,F#", "C++17": "C++,C++17", "17": "17"}, []string{"c and", "G#"}},
	{"C#7 or issue#35", map[string]string{"c# or": "C#,or", "issue or": "or,issue", "35": "35"}, []string{"issue# or"}},
	{"Diabe\u0300te", map[string]string{"diabète": "Diabe\u0300te", "DIABE\u0300TE": "Diabe\u0300te"}, nil},
	{"Diabète e\u00ADn ligne", map[string]string{"diabe\u0300te en ligne": "Diabète,e\u00ADn,ligne"}, nil},
	{"カ\u3099ンタ\u3099ム か\u309A", map[string]string{"ガンダム": "カ\u3099ンタ\u3099ム", "ガ": "カ\u3099", "ﾀﾞﾑ": "タ\u3099ム", "か": "か\u309A"}, []string{"タ", "カンタム"}},
	{"\u1112\u1161\u11A8\u110C\u1165\u11B7\u110B\u1175\u11AB\u110C\u1165\u11BC", map[string]string{"학점인정": "\u1112\u1161\u11A8\u110C\u1165\u11B7\u110B\u1175\u11AB\u110C\u1165\u11BC", "학": "\u1112\u1161\u11A8"}, []string{"하"}},
	{"⽂件 与 ⻓度", map[string]string{"文件": "⽂件", "长度": "⻓度", "文": "⽂"}, nil},
	{"文件", map[string]string{"⽂件": "文件"}, nil},
	{"ﾃﾞｰﾀﾍﾞｰｽ", map[string]string{"データ": "ﾃﾞｰﾀ", "ベース": "ﾍﾞｰｽ", "ﾃﾞｰﾀ": "ﾃﾞｰﾀ"}, nil},
	{"报\u200B销 差\u2060旅\uFEFF流程", map[string]string{"报销": "报\u200B销", "旅流程": "旅\uFEFF流程", "报": "报", "报\u00AD销": "报\u200B销"}, nil},
	{"soft\u00ADware \u202D138\u202C", map[string]string{"software 138": "soft\u00ADware,138"}, []string{"soft 138"}},
	{"￥100 或 ¥200", map[string]string{"¥100": "￥100,¥", "￥200": "￥,¥200"}, []string{"€100"}},
	{"ＷＡＹＰＯＳＴ ﬁnance m² ㎏ ㍿", map[string]string{"waypost finance": "ＷＡＹＰＯＳＴ,ﬁnance", "m2": "m²", "kg": "㎏", "株式": "㍿", "fin": "ﬁn"}, []string{"post m²"}},
	{"GROẞE Straße İstanbul ΟΔΟΣ", map[string]string{"grosse strasse": "GROẞE,Straße", "istanbul": "İstanbul", "οδος": "ΟΔΟΣ", "οδοσ": "ΟΔΟΣ"}, nil},
	{"МОСКВА \uFEE3\uFEAE\uFEA3\uFE92\uFE8E مـــحمد", map[string]string{"москва": "МОСКВА", "مرحبا محمد": "\uFEE3\uFEAE\uFEA3\uFE92\uFE8E,مـــحمد"}, nil},
	{"Waypost™ now", map[string]string{"waypost now": "Waypost,now", "™": "™"}, []string{"tm"}},
	{"家族 👨\u200D👩\u200D👧\u200D👦 和 👩🏽\u200D💻", map[string]string{"👨\u200D👩\u200D👧\u200D👦": "👨\u200D👩\u200D👧\u200D👦", "👩\u200D💻": "👩🏽\u200D💻", "👩": "👨\u200D👩\u200D👧\u200D👦,👩🏽\u200D💻"}, []string{"👨\u200D👩\u200D👧", "👨\u200D💻"}},
	{"ok 👍🏽 ❤\uFE0F", map[string]string{"👍": "👍🏽", "👍🏿": "👍🏽", "❤": "❤\uFE0F"}, []string{"🏽"}},
	{"flags 🇧🇩🇪🇸🇩🇰", map[string]string{"🇪🇸": "🇪🇸"}, []string{"🇩🇪", "🇩"}},
	{"step 1\uFE0F\u20E3 #\uFE0F\u20E3", map[string]string{"1\uFE0F\u20E3": "1\uFE0F\u20E3", "step 1": "step,1\uFE0F\u20E3", "#\uFE0F\u20E3": "#\uFE0F\u20E3"}, []string{"2\uFE0F\u20E3"}},
	{"葛\U000E0100城", map[string]string{"葛城": "葛\U000E0100城", "葛": "葛\U000E0100"}, nil},
}

// Words are found however they are written, in titles and in contents, and the article
// is answered as it was written.
func testWords(t *testing.T, index searchsvc.Index) {
	var docs []searchsvc.Document
	for i, w := range written {
		docs = append(docs, article(2*i+1, w.text, "\u3000"), article(2*i+2, "~", w.text))
		docs[2*i].TenantID, docs[2*i+1].TenantID = "w"+strconv.Itoa(i), "w"+strconv.Itoa(i)
	}
	Fill(t, index, "articles_words", docs)
	for i, w := range written {
		for keyword, marked := range w.finds {
			a := ask{keyword: keyword, tenant: "w" + strconv.Itoa(i)}
			hits := a.all(t, index)
			if len(hits) != 2 {
				t.Errorf("%q is found by %q in %d articles, want 2", w.text, keyword, len(hits))
				continue
			}
			for at, highlight := range []string{hits[0].NameHighlight, hits[1].SearchHighlight} {
				if _, marks := unmark(t, highlight); strings.Join(marks, ",") != marked {
					t.Errorf("%q marks %q of %q, want %q", keyword, marks, w.text, marked)
				}
				checkHit(t, keyword, hits[at], docs[2*i+at], true)
			}
			checkRule(t, index, docs, a)
		}
		for _, keyword := range w.nothing {
			checkRule(t, index, docs, ask{keyword: keyword, tenant: "w" + strconv.Itoa(i)})
			if got := (ask{keyword: keyword, tenant: "w" + strconv.Itoa(i)}).must(t, index); got.Total != 0 {
				t.Errorf("%q is found by %q", w.text, keyword)
			}
		}
	}
}

// The last word is the beginning of many words: articles that hold one of them in
// their title come first, however many words there are.
func testTitleFirst(t *testing.T, index searchsvc.Index) {
	const inTitle, inContent = 60, 70
	var docs []searchsvc.Document
	for i := range inTitle {
		docs = append(docs, article(i+1, "Annual report"+strings.Repeat("s", i%30)+strconv.Itoa(i), "x"))
	}
	for i := range inContent { // the newer ones
		docs = append(docs, article(inTitle+i+1, "Other "+strconv.Itoa(i), "the report and reporting"))
	}
	long := strings.Repeat("reportable", 12)
	docs = append(docs, article(1000, long, "x"), article(1001, "Other", long+"s"))
	const thai = "คู่มือการเบิกค่าใช้จ่ายเดินทางสำหรับพนักงาน" // one word, as it has no blanks
	for i, title := range []string{thai + "ใหม่", thai + "ประจำ", thai, thai + "ชั่วคราว", thai + "ต่างประเทศ", thai + "บริษัท"} {
		docs = append(docs, article(1010+i, title, "x"))
	}
	docs = append(docs, article(1020, "Other", thai))
	Fill(t, index, "articles_titles", docs)
	for _, keyword := range []string{"r", "re", "repor", "report", "annual repo", "REPORTS", long[:30], long[:40], long, thai[:3*24], thai[:3*25], thai[:3*30], thai} {
		for _, perPage := range []int{7, 50} {
			checkRule(t, index, docs, ask{keyword: keyword, perPage: perPage})
		}
	}
}

// A keyword may have as many parts as its bytes allow.
func testManyParts(t *testing.T, index searchsvc.Index) {
	const text = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰馀成岁律吕调阳云腾致雨露结为霜金生丽水玉出昆冈剑号巨阙珠称夜光果珍李柰菜重芥姜海咸河淡鳞潜羽翔龙师火帝鸟官人皇始制文字乃服衣裳推位让国有虞陶唐吊民伐罪周发殷汤坐朝问道垂拱平章爱育黎首"
	characters := strings.Split(text, "")
	docs := []searchsvc.Document{
		article(1, "千字文", text), article(2, text, ""), article(3, "千字文", text[:3*30]),
		article(4, "千字文", strings.Join(slices.Compact(characters[:40]), "，")), article(5, text[:3*20], text[3*20:]),
	}
	Fill(t, index, "articles_parts", docs)
	for _, n := range []int{1, 23, 24, 31, 32, 33, 116} {
		checkRule(t, index, docs, ask{keyword: strings.Join(characters[:n], " ")})
	}
	for _, keyword := range []string{
		strings.Join(characters[:16], " 龙师 "), strings.Join(characters[:16], " x "), strings.Repeat("天 ", 128),
		strings.Join(characters[:100], " ")[:300] + " 千字文",
	} {
		checkRule(t, index, docs, ask{keyword: keyword})
	}
}
