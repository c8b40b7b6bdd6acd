#include "data/strokes.h"

namespace systole::data {

namespace {

constexpr Point kOval[] = {{52, 2}, {14, 0}, {14, 100}, {50, 100}, {86, 100}, {86, 0}, {48, 2}};
constexpr Point kNarrowOval[] = {{60, 4},   {30, 0},  {18, 60}, {30, 102},
                                 {74, 100}, {84, 40}, {66, -4}, {50, 6}};
constexpr Stroke kZeroOval[] = {kOval};
constexpr Stroke kZeroNarrow[] = {kNarrowOval};
constexpr Glyph kZero[] = {kZeroOval, kZeroNarrow};

constexpr Point kBar[] = {{50, 0}, {50, 100}};
constexpr Point kFlagAndBar[] = {{28, 24}, {52, 0}, {52, 0}, {52, 100}};
constexpr Point kFoot[] = {{30, 100}, {74, 100}};
constexpr Stroke kOnePlain[] = {kBar};
constexpr Stroke kOneFlag[] = {kFlagAndBar};
constexpr Stroke kOneFoot[] = {kFlagAndBar, kFoot};
constexpr Glyph kOne[] = {kOnePlain, kOneFlag, kOneFoot};

constexpr Point kTwoSharp[] = {{18, 26}, {26, -4},  {88, -6},  {84, 40},
                               {50, 66}, {16, 100}, {16, 100}, {86, 100}};
constexpr Point kTwoLoop[] = {{18, 24}, {30, -6}, {86, -4}, {82, 40},  {56, 80}, {24, 104},
                              {8, 92},  {26, 76}, {56, 96}, {72, 104}, {90, 90}};
constexpr Stroke kTwoSharpStrokes[] = {kTwoSharp};
constexpr Stroke kTwoLoopStrokes[] = {kTwoLoop};
constexpr Glyph kTwo[] = {kTwoSharpStrokes, kTwoLoopStrokes};

constexpr Point kThreeRound[] = {{18, 14}, {34, -6}, {84, -2},  {80, 42},  {44, 46},
                                 {44, 46}, {90, 46}, {90, 104}, {34, 106}, {14, 84}};
constexpr Point kThreeFlat[] = {{20, 2},  {80, 2},   {80, 2},   {46, 42}, {46, 42},
                                {90, 42}, {90, 102}, {32, 106}, {14, 84}};
constexpr Stroke kThreeRoundStrokes[] = {kThreeRound};
constexpr Stroke kThreeFlatStrokes[] = {kThreeFlat};
constexpr Glyph kThree[] = {kThreeRoundStrokes, kThreeFlatStrokes};

constexpr Point kFourOpenLeft[] = {{26, 4}, {18, 62}, {18, 62}, {86, 58}};
constexpr Point kFourOpenBar[] = {{72, 10}, {66, 100}};
constexpr Point kFourClosed[] = {{90, 70}, {10, 70}, {10, 70}, {66, 0}, {66, 0}, {66, 100}};
constexpr Stroke kFourOpen[] = {kFourOpenLeft, kFourOpenBar};
constexpr Stroke kFourClosedStrokes[] = {kFourClosed};
constexpr Glyph kFour[] = {kFourOpen, kFourClosedStrokes};

constexpr Point kFiveBody[] = {{28, 2},  {22, 46},  {22, 46},  {50, 34},
                               {92, 40}, {88, 106}, {36, 106}, {14, 86}};
constexpr Point kFiveRoof[] = {{28, 2}, {82, 2}};
constexpr Point kFiveOneLine[] = {{80, 2},  {28, 4},   {28, 4},   {24, 44}, {24, 44},
                                  {88, 34}, {90, 104}, {40, 104}, {16, 92}};
constexpr Stroke kFiveTwoStrokes[] = {kFiveBody, kFiveRoof};
constexpr Stroke kFiveOneStroke[] = {kFiveOneLine};
constexpr Glyph kFive[] = {kFiveTwoStrokes, kFiveOneStroke};

constexpr Point kSixCurved[] = {{72, 2},   {30, 10}, {8, 62},  {22, 104},
                                {84, 106}, {86, 48}, {40, 44}, {20, 70}};
constexpr Point kSixStraight[] = {{60, 0},   {36, 30}, {14, 60}, {20, 104},
                                  {80, 106}, {84, 52}, {44, 50}, {18, 74}};
constexpr Stroke kSixCurvedStrokes[] = {kSixCurved};
constexpr Stroke kSixStraightStrokes[] = {kSixStraight};
constexpr Glyph kSix[] = {kSixCurvedStrokes, kSixStraightStrokes};

constexpr Point kSevenPlain[] = {{14, 4}, {86, 4}, {86, 4}, {60, 50}, {40, 100}};
constexpr Point kSevenHook[] = {{16, 18}, {18, 4}, {18, 4}, {84, 6}, {84, 6}, {56, 56}, {46, 100}};
constexpr Point kSevenDash[] = {{36, 52}, {78, 50}};
constexpr Stroke kSevenPlainStrokes[] = {kSevenPlain};
constexpr Stroke kSevenHookStrokes[] = {kSevenHook};
constexpr Stroke kSevenDashStrokes[] = {kSevenPlain, kSevenDash};
constexpr Glyph kSeven[] = {kSevenPlainStrokes, kSevenHookStrokes, kSevenDashStrokes};

constexpr Point kEightOneLine[] = {{76, 14},  {52, -6},  {14, 2}, {20, 36}, {52, 52}, {92, 68}, {84, 104},
                                   {50, 104}, {14, 104}, {8, 70}, {46, 50}, {84, 32}, {78, 10}};
constexpr Point kEightTop[] = {{50, 46}, {16, 44}, {20, 0}, {50, 0}, {80, 0}, {84, 44}, {50, 46}};
constexpr Point kEightBottom[] = {{50, 46}, {8, 48}, {10, 102}, {50, 102}, {90, 102}, {92, 48}, {50, 46}};
constexpr Stroke kEightOneStroke[] = {kEightOneLine};
constexpr Stroke kEightTwoLoops[] = {kEightTop, kEightBottom};
constexpr Glyph kEight[] = {kEightOneStroke, kEightTwoLoops};

constexpr Point kNineStraight[] = {{80, 20}, {60, -8}, {16, -2}, {14, 50},
                                   {62, 60}, {80, 20}, {80, 20}, {74, 100}};
constexpr Point kNineCurved[] = {{78, 26}, {70, -6}, {18, -6}, {12, 50},  {66, 58},
                                 {80, 18}, {80, 18}, {86, 92}, {54, 106}, {24, 92}};
constexpr Stroke kNineStraightStrokes[] = {kNineStraight};
constexpr Stroke kNineCurvedStrokes[] = {kNineCurved};
constexpr Glyph kNine[] = {kNineStraightStrokes, kNineCurvedStrokes};

constexpr std::span<const Glyph> kDigits[] = {kZero, kOne, kTwo,   kThree, kFour,
                                              kFive, kSix, kSeven, kEight, kNine};

}  // namespace

std::span<const Glyph> glyphs(int digit) { return kDigits[digit]; }

}  // namespace systole::data
