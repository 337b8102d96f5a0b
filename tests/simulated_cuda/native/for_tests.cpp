// What tests and the Python loader ask of the machine.
#include "for_tests.h"
#include "machine.h"

#include <algorithm>

static const char *kept(std::string &place, std::string text)
{
    place = std::move(text);
    return place.c_str();
}

EXPORTED const char *simulated_violations()
{
    static std::string place;
    Locked locked;
    std::string text;
    text.swap(machine().violations);
    return kept(place, text);
}

EXPORTED const char *simulated_refusals()
{
    static std::string place;
    Locked locked;
    std::string text;
    for (auto &[name, count] : machine().refused) text += name + " " + std::to_string(count) + "\n";
    machine().refused.clear();
    return kept(place, text);
}

// Later calls by other threads than this one are counted as made "elsewhere".
EXPORTED const char *simulated_calls()
{
    static std::string place;
    Locked locked;
    std::string text;
    for (auto &[name, count] : machine().calls) text += name + " " + std::to_string(count) + "\n";
    machine().calls.clear();
    machine().asker = std::this_thread::get_id();
    return kept(place, text);
}

EXPORTED int simulated_pending()
{
    Locked locked;
    auto &all = machine().operations;
    return (int)std::count_if(all.begin(), all.end(), [](auto &operation) { return !operation.done; });
}

EXPORTED void simulated_finish()
{
    Locked locked;
    finish();
}

EXPORTED size_t simulated_used(int device)
{
    Locked locked;
    return machine().used[device];
}

EXPORTED void simulated_capture(void *stream)
{
    Locked locked;
    machine().capturing = (CUstream_st *)stream;
}

EXPORTED void simulated_sticky(int error)
{
    Locked locked;
    machine().sticky = error;
}

// Opens device memory to the host, or closes it, for a piece of work that the loader does itself.
EXPORTED void simulated_open(int opens)
{
    Locked locked;
    static DeviceWorks *works = nullptr;
    if (opens && !works) works = new DeviceWorks;
    if (!opens && works) {
        delete works;
        works = nullptr;
    }
}

EXPORTED int simulated_work(const char *name, void *handle, int device, int count, const Address *start,
                            const Address *end, const int *writes, void (*run)(void *), void *data)
{
    Locked locked;
    if (int error = usable()) return error;
    CUstream_st *stream = stream_of(handle, device);
    if (!stream) return BAD_HANDLE;
    std::vector<Range> ranges;
    for (int i = 0; i < count; i++) ranges.push_back({start[i], end[i], writes[i] != 0});
    put(name, stream, ranges, [=] { if (run) run(data); }, run ? By::PYTHON : By::DEVICE);
    return OK;
}
