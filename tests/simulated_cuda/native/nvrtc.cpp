// A stand-in for NVRTC that compiles CUDA C++ with the host's compiler. What it calls machine code is a prefix and the
// path of a shared object, which the stand-in for the driver loads. Objects are kept in a folder, by their source.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <string>

#define EXPORTED extern "C" __attribute__((visibility("default")))

static constexpr int SUCCESS = 0, COMPILATION = 6, NO_LTOIR = 11;

struct Program {
    std::string source, image, log;
};

// The folder of the simulation, above that of this library.
static std::string root()
{
    Dl_info info;
    dladdr((void *)root, &info);
    std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/'));
}

static int hand_over(const std::string &text, char *out)
{
    strcpy(out, text.c_str());
    return SUCCESS;
}

static int hand_over_size(const std::string &text, size_t *size)
{
    *size = text.size() + 1;
    return SUCCESS;
}

EXPORTED const char *nvrtcGetErrorString(int error)
{
    return error == COMPILATION ? "NVRTC_ERROR_COMPILATION" : error ? "NVRTC_ERROR" : "NVRTC_SUCCESS";
}

EXPORTED int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return SUCCESS;
}

static const int ARCHITECTURES[] = {80, 90, 100, 120};

EXPORTED int nvrtcGetNumSupportedArchs(int *count)
{
    *count = sizeof ARCHITECTURES / sizeof *ARCHITECTURES;
    return SUCCESS;
}

EXPORTED int nvrtcGetSupportedArchs(int *out)
{
    memcpy(out, ARCHITECTURES, sizeof ARCHITECTURES);
    return SUCCESS;
}

EXPORTED int nvrtcCreateProgram(Program **out, const char *source, const char *, int, const char **, const char **)
{
    *out = new Program{source, "", ""};
    return SUCCESS;
}

EXPORTED int nvrtcDestroyProgram(Program **program)
{
    delete *program;
    *program = nullptr;
    return SUCCESS;
}

// Kernels are looked up by their plain names: there are no templates among them.
EXPORTED int nvrtcAddNameExpression(Program *, const char *) { return SUCCESS; }

EXPORTED int nvrtcGetLoweredName(Program *, const char *name, const char **out)
{
    *out = name;
    return SUCCESS;
}

EXPORTED int nvrtcGetProgramLogSize(Program *program, size_t *size) { return hand_over_size(program->log, size); }
EXPORTED int nvrtcGetProgramLog(Program *program, char *out) { return hand_over(program->log, out); }
EXPORTED int nvrtcGetPTXSize(Program *program, size_t *size) { return hand_over_size(program->image, size); }
EXPORTED int nvrtcGetPTX(Program *program, char *out) { return hand_over(program->image, out); }
EXPORTED int nvrtcGetCUBINSize(Program *program, size_t *size) { return hand_over_size(program->image, size); }
EXPORTED int nvrtcGetCUBIN(Program *program, char *out) { return hand_over(program->image, out); }
EXPORTED int nvrtcGetLTOIRSize(Program *, size_t *) { return NO_LTOIR; }
EXPORTED int nvrtcGetLTOIR(Program *, char *) { return NO_LTOIR; }

// The options that a host compiler has too.
static std::string host_flags(int count, const char **options)
{
    std::string flags;
    for (int i = 0; i < count; i++) {
        std::string option = options[i];
        if ((option == "-I" || option == "-D") && i + 1 < count) flags += " " + option + "'" + options[++i] + "'";
        else if (option.rfind("-I", 0) == 0 || option.rfind("-D", 0) == 0) flags += " '" + option + "'";
        else if (option.rfind("--include-path=", 0) == 0) flags += " '-I" + option.substr(15) + "'";
    }
    return flags;
}

// One letter for each parameter: whether the kernel only reads the memory behind it. CuPy's indexers are read.
static std::string parameter_uses(const std::string &parameters)
{
    std::string uses, one;
    int depth = 0;
    for (char c : parameters + ",") {
        if (c == '<' || c == '(') depth++;
        if (c == '>' || c == ')') depth--;
        if (c != ',' || depth) {
            one += c;
            continue;
        }
        bool reads = one.find("const") != std::string::npos || one.find("_ind") != std::string::npos;
        uses += reads ? 'r' : 'w';
        one.clear();
    }
    return uses;
}

// The source for the host: shared memory that has no size is the buffer of device_code.h, and each kernel gets the
// two functions that the driver's stand-in looks for.
static std::string host_source(std::string source)
{
    static const std::regex shared(
        R"(extern\s+__shared__\s+(?:__align__\(\d+\)\s*)?([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;)");
    static const std::regex kernel(
        R"(__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^{]*)\)\s*\{)");
    std::string meets = source.find("__sync") == std::string::npos ? "false" : "true";
    source = std::regex_replace(source, shared, "$1 *$2 = ($1 *)simulated_shared;");
    std::string entries;
    for (std::sregex_iterator i(source.begin(), source.end(), kernel), end; i != end; ++i)
        entries += "SIMULATED_KERNEL(" + (*i)[1].str() + ", " + meets + ", \"" + parameter_uses((*i)[2]) + "\")\n";
    return "#include <device_code.h>\n#line 1\n" + source + "\n" + entries;
}

EXPORTED int nvrtcCompileProgram(Program *program, int count, const char **options)
{
    std::string text = host_source(program->source), flags = host_flags(count, options), folder = root() + "/kernels";
    mkdir(folder.c_str(), 0777);
    char name[32];
    snprintf(name, sizeof name, "%016zx", std::hash<std::string>()(text + flags));
    std::string base = folder + "/" + name, object = base + ".so";
    struct stat status;
    if (stat(object.c_str(), &status)) {
        // Two processes or threads may compile the same: each writes its own file, and the last one stays.
        static std::atomic<int> files{0};
        std::string own = base + "." + std::to_string(getpid()) + "." + std::to_string(files++);
        std::ofstream(own + ".cpp") << text;
        std::string command = "g++ -std=c++17 -O1 -w -fpermissive -shared -fPIC -I'" + root() + "/include'" + flags +
                              " '" + own + ".cpp' -o '" + own + ".so' > '" + own + ".log' 2>&1 && mv '" + own +
                              ".so' '" + object + "'";
        if (system(command.c_str())) {
            std::stringstream log;
            log << std::ifstream(own + ".log").rdbuf();
            program->log = log.str();
            return COMPILATION;
        }
    }
    program->image = "simulated:" + object;
    return SUCCESS;
}
